#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_pool.h"

namespace yeoul {

// The pages of one sequence in position order: page i holds positions i * tokens_per_page and on.
// Owns one reference to each; the destructor gives them back. Thread-confined to the engine thread;
// borrows the pool.
class PageTable {
 public:
  explicit PageTable(PagePool& pool) : pool_(&pool) {}
  PageTable(PageTable&& other) noexcept;
  PageTable& operator=(PageTable&&) = delete;
  ~PageTable() { clear(); }

  // Makes append() and share_prefix() allocate nothing up to this many pages.
  void reserve(size_t num_pages) { pages_.reserve(num_pages); }

  // Takes over the caller's reference to `page`.
  void append(int32_t page) { pages_.push_back(page); }

  // Shares the first `num_pages` pages of `other`. This table must be empty.
  void share_prefix(const PageTable& other, size_t num_pages);

  // Gives back the pages behind the first `num_pages`.
  void truncate(size_t num_pages);
  void clear() { truncate(0); }

  size_t size() const { return pages_.size(); }
  std::span<const int32_t> pages() const { return pages_; }

 private:
  PagePool* pool_;
  std::vector<int32_t> pages_;
};

}  // namespace yeoul
