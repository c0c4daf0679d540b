#include "model/expert_cache.h"

#include <gtest/gtest.h>

#include <set>

namespace yeoul {
namespace {

const std::vector<int32_t> kTwoLayers = {8, 8};

// The step of a layer that wants one expert, from visit to release; true if it was there.
bool use(ExpertCache& cache, int32_t layer, int32_t expert) {
  cache.visit(layer, {&expert, 1});
  const int32_t index = cache.index(layer, expert);
  const bool is_hit = cache.hold(index);
  EXPECT_TRUE(is_hit || cache.take(index));
  cache.release(index);
  return is_hit;
}

TEST(ExpertCache, holds_as_many_experts_as_it_has_slots) {
  ExpertCache cache(kTwoLayers, 16);
  for (int round = 0; round < 2; ++round) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      for (int32_t expert = 0; expert < 8; ++expert) {
        EXPECT_EQ(use(cache, layer, expert), round == 1);
      }
    }
  }
}

TEST(ExpertCache, gives_every_held_expert_a_slot_of_its_own) {
  ExpertCache cache(kTwoLayers, 5);
  std::set<int32_t> slots;
  for (int32_t expert = 0; expert < 5; ++expert) slots.insert(*cache.take(expert));
  EXPECT_EQ(slots.size(), 5u);
  for (int32_t expert = 0; expert < 5; ++expert) EXPECT_TRUE(slots.contains(cache.slot(expert)));
}

TEST(ExpertCache, a_pinned_expert_does_not_make_room) {
  ExpertCache cache(kTwoLayers, 2);
  EXPECT_TRUE(cache.take(0));
  EXPECT_TRUE(cache.take(1));
  EXPECT_FALSE(cache.take(2));
  cache.release(1);
  EXPECT_TRUE(cache.take(2));
  EXPECT_FALSE(cache.hold(1));
  EXPECT_EQ(cache.slot(0) + cache.slot(2), 1);  // slots 0 and 1
}

TEST(ExpertCache, the_expert_that_is_wanted_least_makes_room) {
  ExpertCache cache(kTwoLayers, 3);
  for (int round = 0; round < 20; ++round) {
    use(cache, 0, 0);
    use(cache, 0, 1);
    if (round == 0) use(cache, 0, 2);  // once, long ago
  }
  EXPECT_FALSE(use(cache, 0, 3));
  EXPECT_TRUE(use(cache, 0, 0));
  EXPECT_TRUE(use(cache, 0, 1));
  EXPECT_FALSE(use(cache, 0, 2));
}

TEST(ExpertCache, an_expected_expert_makes_room_only_when_nothing_else_can) {
  ExpertCache cache(kTwoLayers, 3);
  for (int32_t expert = 0; expert < 3; ++expert) use(cache, 0, expert);
  for (int round = 0; round < 5; ++round) use(cache, 0, 1);
  cache.expect(cache.index(0, 0));  // the least likely one by the forecast, with 2
  EXPECT_FALSE(use(cache, 0, 3));
  EXPECT_TRUE(cache.has_slot(0));
  EXPECT_FALSE(cache.has_slot(2));
  EXPECT_TRUE(cache.hold(1));
  EXPECT_TRUE(cache.hold(3));
  EXPECT_TRUE(cache.take(4)) << "the expected one makes room at last";
  EXPECT_FALSE(cache.has_slot(0));
}

TEST(ExpertCache, guesses_take_at_most_half_of_the_slots_and_none_from_each_other) {
  ExpertCache cache(kTwoLayers, 6);
  for (int32_t expert = 0; expert < 6; ++expert) use(cache, 0, expert);
  for (int32_t expert = 8; expert < 11; ++expert) {
    ASSERT_TRUE(cache.take_ahead(expert));
    cache.release(expert);
  }
  EXPECT_FALSE(cache.take_ahead(11));
  for (int32_t expert = 8; expert < 11; ++expert) EXPECT_TRUE(cache.has_slot(expert));
  cache.forget_expected();
  EXPECT_TRUE(cache.take_ahead(11));
}

TEST(ExpertCache, a_dropped_expert_is_gone_and_its_slot_empty) {
  ExpertCache cache(kTwoLayers, 2);
  EXPECT_TRUE(cache.take(0));
  EXPECT_TRUE(cache.take(1));
  cache.release(0);
  cache.drop(1);
  EXPECT_FALSE(cache.hold(1));
  EXPECT_TRUE(cache.take(2));
  EXPECT_TRUE(cache.hold(0)) << "an empty slot goes before a victim";
}

}  // namespace
}  // namespace yeoul
