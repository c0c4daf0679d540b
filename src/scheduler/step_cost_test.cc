#include "scheduler/step_cost.h"

#include <gtest/gtest.h>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

constexpr double kFixed = 20e-3;
constexpr double kRow = 1e-3;
constexpr double kToken = 150e-6;

double cost(const StepLoad& load) {
  return kFixed + kRow * load.decode_rows + kToken * load.prefill_tokens;
}

void observe(StepCost& model, const StepLoad& load, double factor = 1) {
  model.observe(load, cost(load) * factor);
}

TEST(StepCost, learns_the_three_parts) {
  StepCost model;
  for (int32_t rows = 1; rows <= 8; ++rows) observe(model, {.decode_rows = rows});
  observe(model, {.decode_rows = 3, .prefill_tokens = 100});
  EXPECT_NEAR(model.decode_seconds(5), kFixed + 5 * kRow, 1e-9);
  EXPECT_NEAR(model.token_seconds(), kToken, 1e-9);
}

TEST(StepCost, one_kind_of_step_is_enough_for_what_it_says) {
  StepCost model;
  EXPECT_EQ(model.decode_seconds(4), 0);
  EXPECT_EQ(model.token_seconds(), 0);
  EXPECT_EQ(model.prefill_tokens_max(4, 0.1), StepCost::kFirstChunk);
  observe(model, {.decode_rows = 4});
  EXPECT_NEAR(model.decode_seconds(4), cost({.decode_rows = 4}), 1e-9);
}

TEST(StepCost, single_slow_steps_count_for_nothing) {
  StepCost model;
  for (uint64_t i = 0; i < 200; ++i) {
    const auto rows = static_cast<int32_t>(1 + mix64(i) % 8);
    const double factor = i % 7 == 0 ? 20 : 0.95 + 0.1 * unit_interval(mix64(i + 1000));
    observe(model, {.decode_rows = rows}, factor);
    observe(model, {.decode_rows = rows, .prefill_tokens = 300}, factor);
  }
  EXPECT_NEAR(model.decode_seconds(4), cost({.decode_rows = 4}), 3e-3);
  EXPECT_NEAR(model.token_seconds(), kToken, 0.2 * kToken);
}

TEST(StepCost, steps_of_few_tokens_count_for_little) {
  StepCost model;
  observe(model, {.decode_rows = 4});
  for (int i = 0; i < 20; ++i) observe(model, {.decode_rows = 4, .prefill_tokens = 2}, 0.95);
  observe(model, {.decode_rows = 4, .prefill_tokens = 400});
  EXPECT_NEAR(model.token_seconds(), kToken, 1e-9);
}

TEST(StepCost, follows_when_steps_become_slower) {
  StepCost model;
  for (size_t i = 0; i < 100; ++i) observe(model, {.decode_rows = 4, .prefill_tokens = 64});
  for (size_t i = 0; i < StepCost::kWindow; ++i)
    observe(model, {.decode_rows = 4, .prefill_tokens = 64}, 2);
  const double before = cost({.decode_rows = 4, .prefill_tokens = 64}) / 64;
  EXPECT_NEAR(model.token_seconds(), 2 * before, 1e-9);
}

TEST(StepCost, a_chunk_fills_the_target_less_its_margin) {
  StepCost model;
  for (int32_t rows = 1; rows <= 8; ++rows) observe(model, {.decode_rows = rows});
  observe(model, {.decode_rows = 4, .prefill_tokens = 400});
  const int32_t chunk = model.prefill_tokens_max(4, 0.1);
  const double filled = cost({.decode_rows = 4, .prefill_tokens = chunk});
  EXPECT_LE(filled, 0.09 + 1e-9);
  EXPECT_GT(filled, 0.09 - 2 * kToken);
}

TEST(StepCost, where_the_target_cannot_be_met_prompts_get_the_time_of_the_decode_rows) {
  StepCost model;
  observe(model, {.decode_rows = 4});
  observe(model, {.decode_rows = 4, .prefill_tokens = 100});
  const int32_t chunk = model.prefill_tokens_max(4, 0.02);
  EXPECT_NEAR(chunk * kToken, cost({.decode_rows = 4}), 2 * kToken);
}

TEST(StepCost, a_chunk_is_never_smaller_than_the_least) {
  StepCost model;
  observe(model, {.prefill_tokens = 1}, 1000);
  EXPECT_EQ(model.prefill_tokens_max(1, 0.001), StepCost::kChunkMin);
}

TEST(StepCost, a_chunk_is_at_most_twice_what_was_measured) {
  StepCost model;
  model.observe({.prefill_tokens = 100}, 0);
  EXPECT_EQ(model.prefill_tokens_max(1, 0.1), 200);
}

}  // namespace
}  // namespace yeoul
