#include "model/engram_row_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace yeoul {
namespace {

// A use of the row as a step makes it; true if it was kept.
bool use(EngramRowCache& cache, uint64_t key) {
  if (cache.find(key)) return true;
  cache.admit(key);
  return false;
}

TEST(EngramRowCache, keeps_rows_while_there_is_room_and_gives_each_its_place) {
  EngramRowCache cache(64);
  std::set<int64_t> places;
  int64_t kept = 0;
  for (uint64_t key = 0; key < 16; ++key) {
    use(cache, key);
    if (const std::optional<int64_t> place = cache.find(key)) {
      ++kept;
      places.insert(*place);
      EXPECT_LT(*place, cache.num_places());
    }
  }
  EXPECT_GE(kept, 14);  // of a set of 8 places hardly more than 8 rows
  EXPECT_EQ(places.size(), static_cast<size_t>(kept));
}

TEST(EngramRowCache, rows_seen_once_do_not_push_out_those_in_use) {
  EngramRowCache cache(32);
  for (int round = 0; round < 4; ++round) {
    for (uint64_t key = 0; key < 12; ++key) use(cache, key);
  }
  for (uint64_t key = 1000; key < 1200; ++key) use(cache, key);
  int64_t kept = 0;
  for (uint64_t key = 0; key < 12; ++key) kept += cache.find(key) ? 1 : 0;
  EXPECT_GE(kept, 11);
}

TEST(EngramRowCache, rows_that_are_used_no_more_make_room_in_the_end) {
  EngramRowCache cache(32);
  for (int round = 0; round < 50; ++round) {
    for (uint64_t key = 0; key < 24; ++key) use(cache, key);
  }
  for (int round = 0; round < 200; ++round) {
    for (uint64_t key = 100; key < 110; ++key) use(cache, key);
  }
  int64_t kept = 0;
  for (uint64_t key = 100; key < 110; ++key) kept += cache.find(key) ? 1 : 0;
  EXPECT_GE(kept, 9);
}

TEST(EngramRowCache, a_cache_of_no_places_keeps_nothing) {
  EngramRowCache cache(7);  // less than a set
  EXPECT_EQ(cache.num_places(), 0);
  EXPECT_FALSE(use(cache, 1));
  EXPECT_FALSE(use(cache, 1));
}

}  // namespace
}  // namespace yeoul
