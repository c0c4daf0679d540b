#include "cache/snapshot_pages.h"

#include <algorithm>

#include "base/check.h"

namespace yeoul {

SnapshotPages::SnapshotPages(PagePool& pool, int32_t tokens_per_page, int32_t snapshots_max,
                             int64_t pages_max)
    : tokens_per_page_(tokens_per_page) {
  tables_.reserve(static_cast<size_t>(snapshots_max));
  for (int32_t i = 0; i < snapshots_max; ++i)
    tables_.emplace_back(pool).reserve(static_cast<size_t>(pages_max));
  if (snapshots_max > 0)
    units_.resize(static_cast<size_t>(int64_t{pool.num_pages()} * tokens_per_page_));
}

void SnapshotPages::assign(int32_t snapshot, const PageTable& pages, const PrefixUnits& units,
                           int32_t like, int64_t known) {
  const int64_t length = units.size();
  PageTable& own = at(snapshot);
  CHECK(own.size() == 0, "snapshot {} has pages already", snapshot);
  own.share_prefix(pages, static_cast<size_t>(pages_for(length, tokens_per_page_)));
  int64_t begin = 0;
  if (like >= 0) {
    const std::span<const int32_t> there = table(like).pages();
    const std::span<const int32_t> here = own.pages();
    const auto whole = static_cast<size_t>(known / tokens_per_page_);
    const auto same = std::mismatch(here.begin(), here.begin() + static_cast<ptrdiff_t>(whole),
                                    there.begin(), there.end());
    begin = (same.first - here.begin()) * tokens_per_page_;
  }
  for (int64_t position = begin; position < length; ++position) {
    const int64_t page = own.pages()[static_cast<size_t>(position / tokens_per_page_)];
    units_[static_cast<size_t>(page * tokens_per_page_ + position % tokens_per_page_)] =
        units[position];
  }
}

uint64_t SnapshotPages::unit(int32_t snapshot, int64_t position) const {
  const int64_t page = table(snapshot).pages()[static_cast<size_t>(position / tokens_per_page_)];
  return units_[static_cast<size_t>(page * tokens_per_page_ + position % tokens_per_page_)];
}

int64_t SnapshotPages::common(int32_t snapshot, const PrefixUnits& units, int64_t begin,
                              int64_t end) const {
  const std::span<const int32_t> pages = table(snapshot).pages();
  int64_t position = begin;
  while (position < end) {
    const int64_t place = position % tokens_per_page_;
    const int64_t page = pages[static_cast<size_t>(position / tokens_per_page_)];
    const uint64_t* there = units_.data() + page * tokens_per_page_ + place;
    const int64_t count = std::min(tokens_per_page_ - place, end - position);
    for (int64_t i = 0; i < count; ++i)
      if (there[i] != units[position + i]) return position + i - begin;
    position += count;
  }
  return position - begin;
}

}  // namespace yeoul
