#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace yeoul {

// Pages that hold `num_tokens` positions.
constexpr int64_t pages_for(int64_t num_tokens, int64_t tokens_per_page) {
  return (num_tokens + tokens_per_page - 1) / tokens_per_page;
}
static_assert(pages_for(0, 256) == 0 && pages_for(256, 256) == 1 && pages_for(257, 256) == 2);

// Accounting of KV pages by number: which are free, and how many owners each used one has. Knows
// no tensor and no token; what a page holds is the executor's matter. Several owners share a page
// when they share the prefix that it ends. All storage is allocated at construction.
// Thread-confined to the engine thread.
class PagePool {
 public:
  explicit PagePool(int32_t num_pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  int32_t num_pages() const { return static_cast<int32_t>(ref_counts_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_used() const { return num_pages() - num_free(); }

  // A free page, now with one owner. nullopt when none is free.
  std::optional<int32_t> try_take();

  // One more owner of a page in use.
  void share(int32_t page);

  // One owner less; the last one frees the page. Releasing a free page ends the process.
  void release(int32_t page);

  int32_t ref_count(int32_t page) const;

  // Borrowed until the next call that changes the pool; for snapshots.
  std::span<const int32_t> free_pages() const { return free_; }
  std::span<const int32_t> ref_counts() const { return ref_counts_; }

 private:
  std::vector<int32_t> free_;        // a stack: the page freed last is warm, and is taken first
  std::vector<int32_t> ref_counts_;  // by page, 0: free
};

}  // namespace yeoul
