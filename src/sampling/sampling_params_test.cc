#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <limits>

namespace yeoul {
namespace {

constexpr int32_t kVocab = 100;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(SamplingParams, the_defaults_and_the_ends_of_every_range_are_valid) {
  EXPECT_TRUE(validate({}, kVocab));
  EXPECT_TRUE(validate({.temperature = 0, .top_p = 1, .min_p = 0, .num_top_logprobs = 20}, kVocab));
  EXPECT_TRUE(validate({.temperature = 2,
                        .top_p = 1e-6f,
                        .top_k = 1'000'000,
                        .min_p = 1,
                        .presence_penalty = -2,
                        .frequency_penalty = 2,
                        .repetition_penalty = 0.01f,
                        .logit_bias = {{0, -100.0f}, {kVocab - 1, 100.0f}},
                        .num_top_logprobs = 0},
                       kVocab));
}

TEST(SamplingParams, a_value_out_of_range_is_refused_with_field_range_and_value) {
  const auto message = [](const SamplingParams& params) {
    const Result<void> result = validate(params, kVocab);
    if (result) return std::string("accepted");
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    return result.error().message;
  };
  EXPECT_EQ(message({.temperature = -0.5f}),
            "temperature: a number in [0, 2] expected, -0.5 found");
  EXPECT_EQ(message({.temperature = kNan}), "temperature: a number in [0, 2] expected, nan found");
  EXPECT_EQ(message({.temperature = 2.5f}), "temperature: a number in [0, 2] expected, 2.5 found");
  EXPECT_EQ(message({.top_p = 0}), "top_p: a number in (0, 1] expected, 0 found");
  EXPECT_EQ(message({.top_p = kNan}), "top_p: a number in (0, 1] expected, nan found");
  EXPECT_EQ(message({.top_k = -1}), "top_k: 0 (off) or more expected, -1 found");
  EXPECT_EQ(message({.min_p = 1.5f}), "min_p: a number in [0, 1] expected, 1.5 found");
  EXPECT_EQ(message({.presence_penalty = 3}),
            "presence_penalty: a number in [-2, 2] expected, 3 found");
  EXPECT_EQ(message({.frequency_penalty = kNan}),
            "frequency_penalty: a number in [-2, 2] expected, nan found");
  EXPECT_EQ(message({.repetition_penalty = 0}),
            "repetition_penalty: a finite number above 0 expected, 0 found");
  EXPECT_EQ(message({.repetition_penalty = kInfinity}),
            "repetition_penalty: a finite number above 0 expected, inf found");
  EXPECT_EQ(message({.num_top_logprobs = 21}), "top_logprobs: 0 to 20 expected, 21 found");
  EXPECT_EQ(message({.num_top_logprobs = -2}), "top_logprobs: 0 to 20 expected, -2 found");
  EXPECT_EQ(message({.logit_bias = {{kVocab, 1.0f}}}),
            "logit_bias: token ids 0 to 99 expected, 100 found");
  EXPECT_EQ(message({.logit_bias = {{-1, 1.0f}}}),
            "logit_bias: token ids 0 to 99 expected, -1 found");
  EXPECT_EQ(message({.logit_bias = {{5, kNan}}}),
            "logit_bias: a number in [-100, 100] expected, nan found for token 5");
}

}  // namespace
}  // namespace yeoul
