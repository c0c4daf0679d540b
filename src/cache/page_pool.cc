#include "cache/page_pool.h"

#include "base/check.h"

namespace yeoul {

PagePool::PagePool(int32_t num_pages) {
  CHECK(num_pages >= 0, "{} pages", num_pages);
  ref_counts_.assign(static_cast<size_t>(num_pages), 0);
  free_.reserve(static_cast<size_t>(num_pages));
  for (int32_t page = num_pages; page-- > 0;) free_.push_back(page);  // page 0 is taken first
}

std::optional<int32_t> PagePool::try_take() {
  if (free_.empty()) return std::nullopt;
  const int32_t page = free_.back();
  free_.pop_back();
  ref_counts_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::share(int32_t page) {
  CHECK(ref_count(page) > 0, "page {} is free and cannot be shared", page);
  ++ref_counts_[static_cast<size_t>(page)];
}

void PagePool::release(int32_t page) {
  CHECK(ref_count(page) > 0, "page {} is free already", page);
  if (--ref_counts_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

int32_t PagePool::ref_count(int32_t page) const {
  CHECK(page >= 0 && page < num_pages(), "page {} of {}", page, num_pages());
  return ref_counts_[static_cast<size_t>(page)];
}

}  // namespace yeoul
