#include "server/body_share.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(BodyShare, shares_fill_the_budget_and_give_it_back) {
  BodyBudget budget(100);
  BodyShare first(budget);
  EXPECT_TRUE(first.grow_to(60));
  EXPECT_TRUE(first.grow_to(50));  // never shrinks
  {
    BodyShare second(budget);
    EXPECT_TRUE(second.grow_to(40));
    EXPECT_FALSE(second.grow_to(41));
  }
  BodyShare third(budget);
  EXPECT_TRUE(third.grow_to(40));
  first.release();
  EXPECT_TRUE(third.grow_to(100));
}

}  // namespace
}  // namespace yeoul
