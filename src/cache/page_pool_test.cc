#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace yeoul {
namespace {

TEST(PagePool, hands_out_every_page_once_and_then_none) {
  PagePool pool(5);
  std::set<int32_t> taken;
  for (int i = 0; i < 5; ++i) taken.insert(*pool.try_take());
  EXPECT_EQ(taken, (std::set<int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(pool.try_take(), std::nullopt);
  EXPECT_EQ(pool.num_used(), 5);
}

TEST(PagePool, a_shared_page_is_free_only_when_its_last_owner_lets_go) {
  PagePool pool(2);
  const int32_t page = *pool.try_take();
  pool.share(page);
  pool.release(page);
  EXPECT_EQ(pool.ref_count(page), 1);
  EXPECT_EQ(pool.num_free(), 1);
  pool.release(page);
  EXPECT_EQ(pool.ref_count(page), 0);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(PagePool, releasing_or_sharing_a_free_page_ends_the_process) {
  PagePool pool(2);
  EXPECT_DEATH(pool.release(1), "page 1 is free already");
  EXPECT_DEATH(pool.share(0), "page 0 is free");
  EXPECT_DEATH(pool.ref_count(2), "page 2 of 2");
}

}  // namespace
}  // namespace yeoul
