#include "cache/page_table.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "base/counter_rng.h"
#include "cache/invariants.h"

namespace yeoul {
namespace {

std::vector<int32_t> pages_of(const PageTable& table) {
  return {table.pages().begin(), table.pages().end()};
}

TEST(PageTable, gives_its_pages_back_when_it_ends) {
  PagePool pool(4);
  {
    PageTable table(pool);
    table.append(*pool.try_take());
    table.append(*pool.try_take());
    const PageTable moved = std::move(table);
    EXPECT_EQ(moved.size(), 2u);
    EXPECT_EQ(pool.num_used(), 2);
  }
  EXPECT_EQ(pool.num_used(), 0);
}

TEST(PageTable, a_shared_prefix_outlives_the_table_it_came_from) {
  PagePool pool(4);
  PageTable follower(pool);
  std::vector<int32_t> first_two;
  {
    PageTable leader(pool);
    for (int i = 0; i < 3; ++i) leader.append(*pool.try_take());
    first_two = {leader.pages()[0], leader.pages()[1]};
    follower.share_prefix(leader, 2);
    EXPECT_EQ(pool.ref_count(first_two[0]), 2);
  }
  EXPECT_EQ(pages_of(follower), first_two);
  EXPECT_EQ(pool.num_used(), 2);
  EXPECT_DEATH(follower.share_prefix(follower, 1), "cannot take over a prefix");
}

TEST(PageTable, truncation_frees_the_tail_only) {
  PagePool pool(4);
  PageTable table(pool);
  for (int i = 0; i < 4; ++i) table.append(*pool.try_take());
  const int32_t first = table.pages()[0];
  table.truncate(1);
  EXPECT_EQ(pages_of(table), std::vector<int32_t>{first});
  EXPECT_EQ(pool.num_free(), 3);
}

// Random life of many tables that grow, fork, shrink and end; the invariants hold throughout.
TEST(PageTable, random_forks_and_ends_keep_the_invariants) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    PagePool pool(24);
    std::vector<std::optional<PageTable>> tables(6);
    for (uint64_t turn = 0; turn < 300; ++turn) {
      const uint64_t bits = counter_bits(seed, turn);
      auto& table = tables[bits % tables.size()];
      const auto& other = tables[(bits >> 8) % tables.size()];
      switch ((bits >> 16) % 4) {
        case 0:
        case 1:
          if (!table) table.emplace(pool);
          if (const std::optional<int32_t> page = pool.try_take()) table->append(*page);
          break;
        case 2:
          if (!table && other) {
            table.emplace(pool);
            table->share_prefix(*other, (bits >> 24) % (other->size() + 1));
          } else if (table) {
            table->truncate((bits >> 24) % (table->size() + 1));
          }
          break;
        case 3:
          if ((bits >> 24) % 3 == 0) table.reset();
          break;
      }
      CacheSnapshot state = snapshot(pool);
      for (const auto& entry : tables)
        if (entry) state.tables.push_back(pages_of(*entry));
      const Result<void> ok = check_pages(state);
      ASSERT_TRUE(ok) << "seed " << seed << " turn " << turn << ": " << ok.error().message;
    }
    tables.clear();
    ASSERT_EQ(pool.num_free(), 24) << "seed " << seed;
  }
}

}  // namespace
}  // namespace yeoul
