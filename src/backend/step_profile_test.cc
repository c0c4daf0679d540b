#include "backend/step_profile.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "backend/cpu/test_values.h"
#include "backend/profile_report.h"
#include "backend/profiled_ops.h"

namespace yeoul {
namespace {

// Every look takes one millisecond.
class TickingClock final : public Clock {
 public:
  TimePoint now() const override { return time_ += std::chrono::milliseconds(1); }

 private:
  mutable TimePoint time_{};
};

class StepProfileTest : public testing::Test {
 protected:
  StepProfileTest() { profile_.reserve(2); }
  TickingClock clock_;
  StepProfile profile_{clock_};
};

TEST_F(StepProfileTest, time_goes_to_the_layer_it_was_spent_in_and_to_the_kind_of_step) {
  profile_.begin_step(StepKind::kDecode, 3);
  profile_.enter_layer(0);
  profile_.enter_layer(1);
  clock_.now(), clock_.now();
  profile_.enter_layer(StepProfile::kNoLayer);
  profile_.end_step();
  EXPECT_EQ(profile_.steps(StepKind::kDecode), 1);
  EXPECT_EQ(profile_.rows(StepKind::kDecode), 3);
  EXPECT_EQ(profile_.steps(StepKind::kPrefill), 0);
  EXPECT_DOUBLE_EQ(profile_.seconds(StepKind::kDecode, 0), 0.001);
  EXPECT_DOUBLE_EQ(profile_.seconds(StepKind::kDecode, 1), 0.003);
  EXPECT_DOUBLE_EQ(profile_.seconds(StepKind::kDecode, StepProfile::kNoLayer), 0.002);
  EXPECT_DOUBLE_EQ(profile_.seconds(StepKind::kDecode), 0.006);
}

TEST_F(StepProfileTest, costs_add_up_in_their_place) {
  profile_.begin_step(StepKind::kPrefill, 8);
  profile_.enter_layer(1);
  profile_.add(OpKind::kAttention, {1, 0.5, 10, 100});
  profile_.add(OpKind::kAttention, {1, 0.25, 20, 200});
  profile_.end_step();
  const OpCost& cost = profile_.cost(StepKind::kPrefill, 1, OpKind::kAttention);
  EXPECT_EQ(cost.calls, 2);
  EXPECT_EQ(cost.seconds, 0.75);
  EXPECT_EQ(cost.bytes, 30);
  EXPECT_EQ(cost.operations, 300);
  EXPECT_EQ(profile_.cost(StepKind::kPrefill, 0, OpKind::kAttention).calls, 0);
  EXPECT_EQ(profile_.cost(StepKind::kDecode, 1, OpKind::kAttention).calls, 0);
}

TEST_F(StepProfileTest, a_profiled_product_has_the_same_bits_and_its_bytes_and_operations) {
  constexpr int64_t kInputs = 96, kOutputs = 64, kRows = 3;
  ThreadPool pool(1);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, {.linear_inputs_max = kInputs});
  ProfiledOps profiled(*ops, profile_, clock_);
  EXPECT_STREQ(profiled.numerics_id(), ops->numerics_id());
  profile_.begin_step(StepKind::kDecode, kRows);
  const std::vector<Bf16> x = cpu::test_bf16(2, kRows * kInputs, 4);
  const struct {
    WeightFormat format;
    OpKind op;
    double bytes;
  } cases[] = {{WeightFormat::kBf16, OpKind::kLinearBf16, 2 * 96 * 64},
               {WeightFormat::kFp8, OpKind::kLinearFp8, 96 * 64 + 3 * 2},
               {WeightFormat::kFp4, OpKind::kLinearFp4, 96 * 64 / 2 + 3 * 64}};
  for (const auto& tested : cases) {
    const cpu::TestWeight weight(tested.format, kOutputs, kInputs, 1);
    std::vector<float> plain(kRows * kOutputs, NAN), found(kRows * kOutputs, NAN);
    const auto run = [&](Ops& on, std::vector<float>& y) {
      on.linear({weight.weight(), ActivationRule::kAsIs, x.data(), kInputs, kRows, nullptr,
                 y.data(), kOutputs});
    };
    run(*ops, plain);
    run(profiled, found);
    EXPECT_EQ(std::memcmp(plain.data(), found.data(), plain.size() * sizeof(float)), 0);
    const OpCost& cost = profile_.cost(StepKind::kDecode, StepProfile::kNoLayer, tested.op);
    EXPECT_EQ(cost.calls, 1);
    EXPECT_DOUBLE_EQ(cost.seconds, 0.001);
    EXPECT_EQ(cost.bytes, tested.bytes);
    EXPECT_EQ(cost.operations, 2.0 * 96 * 64 * 3);
  }
}

TEST_F(StepProfileTest, the_report_names_what_took_longest_and_its_share_of_the_roof) {
  profile_.begin_step(StepKind::kDecode, 1);
  profile_.enter_layer(0);
  // 1 GB and 2 GFLOP in 200 ms: at 10 GB/s the bytes need 100 ms, at 40 GFLOP/s the products 50.
  profile_.add(OpKind::kLinearFp8, {4, 0.2, 1e9, 2e9});
  for (int i = 0; i < 299; ++i) clock_.now();
  profile_.end_step();
  const std::string text = to_string(profile_, {10e9, 40e9});
  EXPECT_NE(text.find("1 decode steps, 1 rows, 301.000 ms a step"), std::string::npos) << text;
  EXPECT_NE(text.find("linear fp8"), std::string::npos);
  EXPECT_NE(text.find("50% m"), std::string::npos) << text;
  EXPECT_NE(text.find("outside of ops"), std::string::npos);
  EXPECT_EQ(text.find("attention"), std::string::npos) << "an op that did not run";
  EXPECT_EQ(text.find("prefill steps"), std::string::npos);
  EXPECT_EQ(to_string(profile_, {}).find("roofs:"), std::string::npos);
}

}  // namespace
}  // namespace yeoul
