#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cache/page_pool.h"

namespace yeoul {

// What the page accounting claims at one moment, as plain data.
struct CacheSnapshot {
  std::vector<int32_t> free_pages;
  std::vector<int32_t> ref_counts;           // by page
  std::vector<std::vector<int32_t>> tables;  // of all sequences
  std::vector<int32_t> reserved;             // taken for a step, in no table yet
};

// Copies the pool's side of a snapshot; the caller adds tables and reservations.
CacheSnapshot snapshot(const PagePool& pool);

// kInternal, naming the page and both numbers, when one of these does not hold:
// - every page is either free, once, with count 0, or used with a count above 0;
// - a page's count is the number of tables and reservations that hold it;
// - tables share a page only as the end of a prefix that they share from the first page on.
Result<void> check_pages(const CacheSnapshot& snapshot);

}  // namespace yeoul
