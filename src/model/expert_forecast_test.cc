#include "model/expert_forecast.h"

#include <gtest/gtest.h>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

constexpr int32_t kLayers = 2, kExperts = 32;
const std::vector<int32_t> kExpertsOfLayer(kLayers, kExperts);

void visit_both(ExpertForecast& forecast, int32_t expert) {
  for (int32_t layer = 0; layer < kLayers; ++layer) forecast.visit(layer, {&expert, 1});
}

TEST(ExpertForecast, numbers_experts_through_layers_of_different_size) {
  const std::vector<int32_t> sizes = {4, 7, 2};
  const ExpertForecast forecast(sizes);
  EXPECT_EQ(forecast.num_experts(), 13);
  EXPECT_EQ(forecast.index(0, 3), 3);
  EXPECT_EQ(forecast.index(1, 0), 4);
  EXPECT_EQ(forecast.index(2, 1), 12);
}

// Expert 0 is popular for ever: it is wanted every third visit, the others at random.
TEST(ExpertForecast, lasting_popularity_outweighs_a_use_that_was_just_now) {
  ExpertForecast forecast(kExpertsOfLayer);
  int32_t last = 0;
  for (uint64_t visit = 0; visit < 600; ++visit) {
    last = visit % 3 == 0 ? 0 : 1 + static_cast<int32_t>(counter_bits(3, visit) % (kExperts - 1));
    visit_both(forecast, last);
  }
  ASSERT_NE(last, 0);
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    EXPECT_GT(forecast.chance(forecast.index(layer, 0)),
              forecast.chance(forecast.index(layer, last)));
  }
}

// Every expert is wanted 20 visits in a row and then for long not at all.
TEST(ExpertForecast, where_routing_sticks_the_last_use_outweighs_many_old_ones) {
  ExpertForecast forecast(kExpertsOfLayer);
  const auto run = [&](int32_t expert, int count) {
    for (int i = 0; i < count; ++i) visit_both(forecast, expert);
  };
  for (int32_t round = 0; round < 40; ++round) run(2 + round % (kExperts - 2), 20);
  run(0, 60);  // used much
  run(1, 3);   // used last
  EXPECT_GT(forecast.chance(forecast.index(0, 1)), forecast.chance(forecast.index(0, 0)));
}

TEST(ExpertForecast, equal_choices_give_equal_forecasts) {
  ExpertForecast one(kExpertsOfLayer), other(kExpertsOfLayer);
  for (uint64_t visit = 0; visit < 100; ++visit) {
    const auto expert = static_cast<int32_t>(counter_bits(9, visit) % kExperts);
    visit_both(one, expert);
    visit_both(other, expert);
  }
  for (int32_t index = 0; index < one.num_experts(); ++index) {
    EXPECT_EQ(one.chance(index), other.chance(index));
  }
}

}  // namespace
}  // namespace yeoul
