#include "cache/invariants.h"

#include <fmt/format.h>

namespace yeoul {

namespace {

// Where a page was first seen in a table.
struct Place {
  int64_t table = -1;
  size_t index = 0;
};

Result<void> check_free_list(const CacheSnapshot& snapshot) {
  std::vector<bool> is_free(snapshot.ref_counts.size(), false);
  for (const int32_t page : snapshot.free_pages) {
    const auto p = static_cast<size_t>(page);
    if (page < 0 || p >= is_free.size())
      return fail(ErrorCode::kInternal,
                  fmt::format("free list: page {} of {}", page, is_free.size()));
    if (is_free[p])
      return fail(ErrorCode::kInternal, fmt::format("free list: page {} is there twice", page));
    is_free[p] = true;
  }
  for (size_t page = 0; page < is_free.size(); ++page) {
    const int32_t count = snapshot.ref_counts[page];
    if (is_free[page] != (count == 0) || count < 0)
      return fail(ErrorCode::kInternal, fmt::format("page {}: {} owners, {} the free list", page,
                                                    count, is_free[page] ? "in" : "not in"));
  }
  return {};
}

// Two tables may share page i only when they share page i-1 too (and so on down to page 0).
Result<void> check_shared_prefixes(const CacheSnapshot& snapshot) {
  std::vector<Place> first_seen(snapshot.ref_counts.size());
  for (size_t t = 0; t < snapshot.tables.size(); ++t) {
    const std::vector<int32_t>& table = snapshot.tables[t];
    for (size_t i = 0; i < table.size(); ++i) {
      Place& place = first_seen[static_cast<size_t>(table[i])];
      if (place.table < 0) {
        place = {static_cast<int64_t>(t), i};
        continue;
      }
      const std::vector<int32_t>& other = snapshot.tables[static_cast<size_t>(place.table)];
      if (place.table == static_cast<int64_t>(t) || place.index != i ||
          (i > 0 && other[i - 1] != table[i - 1]))
        return fail(ErrorCode::kInternal,
                    fmt::format("page {}: entry {} of table {} and entry {} of table {}, which "
                                "share no prefix up to it",
                                table[i], place.index, place.table, i, t));
    }
  }
  return {};
}

}  // namespace

CacheSnapshot snapshot(const PagePool& pool) {
  CacheSnapshot result;
  result.free_pages.assign(pool.free_pages().begin(), pool.free_pages().end());
  result.ref_counts.assign(pool.ref_counts().begin(), pool.ref_counts().end());
  return result;
}

Result<void> check_pages(const CacheSnapshot& snapshot) {
  TRY(check_free_list(snapshot));
  std::vector<int32_t> owners(snapshot.ref_counts.size(), 0);
  const auto count_owners = [&](const std::vector<int32_t>& pages) -> Result<void> {
    for (const int32_t page : pages) {
      if (page < 0 || static_cast<size_t>(page) >= owners.size())
        return fail(ErrorCode::kInternal, fmt::format("page {} of {}", page, owners.size()));
      ++owners[static_cast<size_t>(page)];
    }
    return {};
  };
  for (const std::vector<int32_t>& table : snapshot.tables) TRY(count_owners(table));
  TRY(count_owners(snapshot.reserved));
  for (size_t page = 0; page < owners.size(); ++page)
    if (owners[page] != snapshot.ref_counts[page])
      return fail(ErrorCode::kInternal, fmt::format("page {}: count {}, held by {}", page,
                                                    snapshot.ref_counts[page], owners[page]));
  return check_shared_prefixes(snapshot);
}

}  // namespace yeoul
