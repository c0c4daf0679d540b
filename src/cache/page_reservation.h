#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cache/page_pool.h"

namespace yeoul {

// Pages taken from a pool for one step, before they belong to a sequence. What is not taken over
// until the destructor runs goes back, so that every early return leaves the pool as it was.
// Thread-confined to the engine thread; borrows the pool and the storage.
class PageReservation {
 public:
  // Takes storage.size() pages and writes their numbers there; all or none. nullopt when fewer are
  // free.
  static std::optional<PageReservation> make(PagePool& pool, std::span<int32_t> storage);

  PageReservation(PageReservation&& other) noexcept;
  PageReservation& operator=(PageReservation&&) = delete;
  ~PageReservation() { give_back(); }

  // Pages not yet taken over, in the order take() hands them out.
  std::span<const int32_t> remaining() const { return pages_.subspan(next_); }

  // The next page; its one reference now belongs to the caller.
  int32_t take();

  // What the destructor does, earlier.
  void give_back();

 private:
  PageReservation(PagePool& pool, std::span<int32_t> pages) : pool_(&pool), pages_(pages) {}

  PagePool* pool_;
  std::span<int32_t> pages_;
  size_t next_ = 0;
};

}  // namespace yeoul
