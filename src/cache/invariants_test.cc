#include "cache/invariants.h"

#include <gtest/gtest.h>

#include <string>

namespace yeoul {
namespace {

// Six pages: table 0 holds 0 1 2, table 1 shares 0 1 and holds 3, page 4 is reserved, 5 is free.
CacheSnapshot good() {
  return {.free_pages = {5},
          .ref_counts = {2, 2, 1, 1, 1, 0},
          .tables = {{0, 1, 2}, {0, 1, 3}},
          .reserved = {4}};
}

void expect_violation(const CacheSnapshot& snapshot, const std::string& text) {
  const Result<void> result = check_pages(snapshot);
  ASSERT_FALSE(result) << "expected: " << text;
  EXPECT_EQ(result.error().code, ErrorCode::kInternal);
  EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
}

TEST(CacheInvariants, a_shared_prefix_and_a_reservation_are_fine) {
  EXPECT_TRUE(check_pages(good()));
}

TEST(CacheInvariants, a_page_both_free_and_used_is_found) {
  CacheSnapshot snapshot = good();
  snapshot.free_pages.push_back(2);
  expect_violation(snapshot, "page 2: 1 owners, in the free list");
}

TEST(CacheInvariants, a_lost_page_is_found) {
  CacheSnapshot snapshot = good();
  snapshot.free_pages.clear();
  expect_violation(snapshot, "page 5: 0 owners, not in the free list");
}

TEST(CacheInvariants, a_page_twice_in_the_free_list_is_found) {
  CacheSnapshot snapshot = good();
  snapshot.free_pages.push_back(5);
  expect_violation(snapshot, "page 5 is there twice");
}

TEST(CacheInvariants, a_wrong_count_is_found) {
  CacheSnapshot snapshot = good();
  snapshot.ref_counts[1] = 3;
  expect_violation(snapshot, "page 1: count 3, held by 2");
}

TEST(CacheInvariants, a_leaked_reservation_is_found) {
  CacheSnapshot snapshot = good();
  snapshot.reserved.clear();
  expect_violation(snapshot, "page 4: count 1, held by 0");
}

TEST(CacheInvariants, two_unrelated_tables_with_one_page_are_found) {
  CacheSnapshot snapshot = good();
  snapshot.tables = {{0, 1, 2}, {3, 1}, {0}};
  expect_violation(snapshot, "page 1: entry 1 of table 0 and entry 1 of table 1");
}

TEST(CacheInvariants, a_page_at_two_places_of_one_table_is_found) {
  CacheSnapshot snapshot = good();
  snapshot.ref_counts = {1, 2, 1, 1, 1, 0};
  snapshot.tables = {{0, 1, 1}, {2, 3}};
  expect_violation(snapshot, "page 1: entry 1 of table 0 and entry 2 of table 0");
}

TEST(CacheInvariants, numbers_out_of_range_are_found) {
  CacheSnapshot snapshot = good();
  snapshot.tables[0][0] = 6;
  expect_violation(snapshot, "page 6 of 6");
  snapshot = good();
  snapshot.free_pages[0] = -1;
  expect_violation(snapshot, "page -1 of 6");
}

}  // namespace
}  // namespace yeoul
