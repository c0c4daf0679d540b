#include "cache/page_table.h"

#include <utility>

#include "base/check.h"

namespace yeoul {

PageTable::PageTable(PageTable&& other) noexcept
    : pool_(other.pool_), pages_(std::exchange(other.pages_, {})) {}

void PageTable::share_prefix(const PageTable& other, size_t num_pages) {
  CHECK(pages_.empty(), "a table of {} pages cannot take over a prefix", pages_.size());
  CHECK(num_pages <= other.size(), "{} pages of a table of {}", num_pages, other.size());
  for (const int32_t page : other.pages().first(num_pages)) {
    pool_->share(page);
    pages_.push_back(page);
  }
}

void PageTable::truncate(size_t num_pages) {
  while (pages_.size() > num_pages) {
    pool_->release(pages_.back());
    pages_.pop_back();
  }
}

}  // namespace yeoul
