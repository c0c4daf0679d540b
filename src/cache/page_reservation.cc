#include "cache/page_reservation.h"

#include <utility>

#include "base/check.h"

namespace yeoul {

std::optional<PageReservation> PageReservation::make(PagePool& pool, std::span<int32_t> storage) {
  if (static_cast<size_t>(pool.num_free()) < storage.size()) return std::nullopt;
  for (int32_t& page : storage) page = *pool.try_take();
  return PageReservation(pool, storage);
}

PageReservation::PageReservation(PageReservation&& other) noexcept
    : pool_(other.pool_),
      pages_(std::exchange(other.pages_, {})),
      next_(std::exchange(other.next_, 0)) {}

void PageReservation::give_back() {
  // Backwards, so that the pool's stack is as it was.
  const std::span<const int32_t> rest = remaining();
  for (size_t i = rest.size(); i-- > 0;) pool_->release(rest[i]);
  next_ = pages_.size();
}

int32_t PageReservation::take() {
  CHECK(next_ < pages_.size(), "all {} reserved pages are taken", pages_.size());
  return pages_[next_++];
}

}  // namespace yeoul
