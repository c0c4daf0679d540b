// The cache's choice of what stays, against LRU and against Belady's, which knows the future.

#include <gtest/gtest.h>

#include "support/routing_traces.h"

namespace yeoul {
namespace {

// Small, because Belady and LRU are played by brute force.
constexpr TraceShape kShape{.layers = 4, .experts = 64, .chosen = 4, .tokens = 900};
constexpr int32_t kSlots = kShape.layers * kShape.experts / 4;
constexpr size_t kCold = size_t{kShape.layers} * 100;

TEST(ExpertCacheChoice, beats_lru_by_five_points_where_the_best_beats_it_by_ten) {
  for (const auto make : {zipf_trace, topics_trace, phases_trace}) {
    for (const uint64_t seed : {1, 2, 3}) {
      const RoutingTrace trace = make(kShape, seed);
      const HitRates rates = play(trace, kSlots, kCold);
      SCOPED_TRACE(testing::Message()
                   << trace.name << " seed " << seed << ": lru " << rates.lru << ", forecast "
                   << rates.forecast << ", belady " << rates.belady);
      EXPECT_GE(rates.belady, rates.forecast);
      EXPECT_GE(rates.belady, rates.lru + 0.10) << "nothing to win: the trace shows nothing";
      EXPECT_GE(rates.forecast, rates.lru + 0.05);
    }
  }
}

TEST(ExpertCacheChoice, finds_everything_once_everything_has_a_slot) {
  const RoutingTrace trace = zipf_trace({.layers = 2, .experts = 8, .chosen = 4, .tokens = 60}, 1);
  const HitRates rates = play(trace, 16, 80);
  EXPECT_EQ(rates.lru, 1);
  EXPECT_EQ(rates.forecast, 1);
  EXPECT_EQ(rates.belady, 1);
}

// Every expert in turn: the case LRU never finds anything in.
TEST(ExpertCacheChoice, keeps_a_part_of_a_cycle_that_does_not_fit) {
  RoutingTrace trace{"cycle", 1, 16, {}};
  for (int32_t step = 0; step < 1600; ++step) trace.steps.push_back({step % 16});
  const HitRates rates = play(trace, 8, 800);
  EXPECT_EQ(rates.lru, 0);
  EXPECT_GT(rates.belady, 0.4);
}

}  // namespace
}  // namespace yeoul
