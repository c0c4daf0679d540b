#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "backend/math_functions.h"
#include "base/counter_rng.h"

namespace yeoul {
namespace {

TokenId token_of(Sampler& sampler, const SampleInput& input) {
  SampleOutput output;
  EXPECT_EQ(sampler.sample(input, output), SampleStatus::kOk);
  return output.token;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  double total = 0;
  for (const float logit : logits) {
    p.push_back(std::exp((static_cast<double>(logit) - top) / temperature));
    total += p.back();
  }
  for (double& value : p) value /= total;
  return p;
}

// Pearson's statistic of `draws` draws at successive positions against `expected`.
double chi_square(const SampleInput& input, const std::vector<double>& expected, int draws) {
  Sampler sampler(static_cast<int32_t>(input.logits.size()));
  std::vector<int> counts(expected.size());
  for (int position = 0; position < draws; ++position) {
    SampleInput at = input;
    at.position = position;
    ++counts[static_cast<size_t>(token_of(sampler, at))];
  }
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double mean = expected[i] * draws;
    sum += (counts[i] - mean) * (counts[i] - mean) / mean;
  }
  return sum;
}

const std::vector<float> kEightLogits = {1.0f, -0.5f, 0.25f, 2.0f, -1.25f, 0.0f, 1.5f, -2.0f};
// Chi-square with 7 degrees of freedom exceeds this with probability 1e-4.
constexpr double kChiSquareLimit = 29.88;

TEST(Sampler, draws_follow_the_softmax_at_every_temperature) {
  for (const float temperature : {0.5f, 1.0f, 1.75f}) {
    for (const uint64_t seed : {0ull, 7ull, ~0ull}) {
      const SamplingParams params{.temperature = temperature, .seed = seed};
      const SampleInput input{.logits = kEightLogits, .params = &params};
      EXPECT_LT(chi_square(input, softmax(kEightLogits, temperature), 20'000), kChiSquareLimit)
          << "temperature " << temperature << " seed " << seed;
    }
  }
}

TEST(Sampler, the_chi_square_test_notices_a_wrong_temperature) {
  const SamplingParams params{.temperature = 1.0f, .seed = 7};
  const SampleInput input{.logits = kEightLogits, .params = &params};
  EXPECT_GT(chi_square(input, softmax(kEightLogits, 1.1), 20'000), kChiSquareLimit);
}

TEST(Sampler, seeds_choices_and_positions_draw_differently_and_each_repeats) {
  const std::vector<float> flat(1000, 0.0f);
  Sampler sampler(1000);
  std::map<TokenId, int> seen;
  for (int seed = 0; seed < 4; ++seed) {
    for (int choice = 0; choice < 4; ++choice) {
      for (int position = 0; position < 4; ++position) {
        const SamplingParams params{.seed = static_cast<uint64_t>(seed)};
        const SampleInput input{
            .logits = flat, .params = &params, .choice = choice, .position = position};
        const TokenId token = token_of(sampler, input);
        EXPECT_EQ(token_of(sampler, input), token);
        ++seen[token];
      }
    }
  }
  // 64 draws from 1000: about two coincide by chance.
  EXPECT_GT(seen.size(), 55u);
}

TEST(Sampler, a_draw_does_not_depend_on_what_the_sampler_drew_before) {
  std::vector<float> other(8, 3.0f);
  Sampler fresh(8);
  Sampler used(8);
  const SamplingParams params{.top_p = 0.9f, .seed = 5};
  const SamplingParams other_params{.temperature = 0.3f, .top_k = 2, .seed = 99};
  for (int position = 0; position < 200; ++position) {
    const SampleInput input{.logits = kEightLogits, .params = &params, .position = position};
    token_of(used, {.logits = other, .params = &other_params, .position = position});
    EXPECT_EQ(token_of(fresh, input), token_of(used, input));
  }
}

TEST(Sampler, removing_tokens_that_lost_does_not_change_the_draw) {
  Sampler sampler(8);
  const SamplingParams params{.seed = 11};
  for (int position = 0; position < 200; ++position) {
    SampleInput input{.logits = kEightLogits, .params = &params, .position = position};
    const TokenId token = token_of(sampler, input);
    const uint64_t only_half = (uint64_t{0x55} << (token % 2)) & 0xff;
    input.allowed = {&only_half, 1};
    EXPECT_EQ(token_of(sampler, input), token);
  }
}

TEST(Sampler, a_bounded_search_finds_the_argmax_over_the_whole_vocabulary) {
  constexpr int32_t kVocab = 5000;
  std::vector<float> logits(kVocab);
  Sampler sampler(kVocab);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const float spread = static_cast<float>(seed) / 2;
    for (size_t i = 0; i < logits.size(); ++i) {
      logits[i] = spread * static_cast<float>(unit_interval(counter_bits(seed, i)));
    }
    const SamplingParams params{.seed = seed};
    TokenId expected = 0;
    double best = -std::numeric_limits<double>::infinity();
    const uint64_t key = counter_key(seed, 3, 17);
    for (TokenId id = 0; id < kVocab; ++id) {
      const auto index = static_cast<size_t>(id);
      const double value = static_cast<double>(logits[index]) + gumbel(counter_bits(key, index));
      if (value > best) {
        best = value;
        expected = id;
      }
    }
    EXPECT_EQ(token_of(sampler, {.logits = logits, .params = &params, .choice = 3, .position = 17}),
              expected);
  }
}

TEST(Sampler, gumbel_is_finite_at_both_ends_and_agrees_with_the_formula) {
  EXPECT_NEAR(gumbel(~0ull), 53 * std::log(2.0), 1e-9);
  EXPECT_NEAR(gumbel(0), -std::log(53 * std::log(2.0)), 1e-12);
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t bits = mix64(i);
    EXPECT_NEAR(gumbel(bits), -std::log(-std::log(unit_interval(bits))), 1e-12);
  }
}

TEST(Sampler, temperature_zero_takes_the_largest_logit_and_of_equals_the_smaller_id) {
  Sampler sampler(6);
  const SamplingParams params{.temperature = 0.0f, .top_p = 0.1f, .top_k = 1, .seed = 3};
  const std::vector<float> logits = {-1.0f, 2.0f, 0.0f, 2.0f, 2.0f, -0.0f};
  EXPECT_EQ(token_of(sampler, {.logits = logits, .params = &params}), 1);
  const uint64_t without_first = 0b111101;
  EXPECT_EQ(
      token_of(sampler, {.logits = logits, .params = &params, .allowed = {&without_first, 1}}), 3);
  const std::vector<float> zeros = {-0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f};
  EXPECT_EQ(token_of(sampler, {.logits = zeros, .params = &params}), 0);
}

TEST(Sampler, bias_reaches_greedy_and_sampled_draws) {
  Sampler sampler(8);
  SamplingParams params{.temperature = 0.0f, .logit_bias = {{7, 100.0f}, {3, -100.0f}}};
  EXPECT_EQ(token_of(sampler, {.logits = kEightLogits, .params = &params}), 7);
  params.temperature = 1.0f;
  for (int position = 0; position < 100; ++position) {
    EXPECT_EQ(token_of(sampler, {.logits = kEightLogits, .params = &params, .position = position}),
              7);
  }
}

TEST(Sampler, penalties_of_the_counted_tokens_change_the_greedy_choice) {
  Sampler sampler(8);
  TokenCounts counts(8);
  const SamplingParams params{.temperature = 0.0f, .frequency_penalty = 0.3f};
  const SampleInput input{.logits = kEightLogits, .params = &params, .counts = &counts};
  EXPECT_EQ(token_of(sampler, input), 3);
  counts.add_output(3);
  EXPECT_EQ(token_of(sampler, input), 3);  // 2.0 - 0.3 > 1.5
  counts.add_output(3);
  EXPECT_EQ(token_of(sampler, input), 6);  // 2.0 - 0.6 < 1.5
}

TEST(Sampler, a_row_with_nan_or_infinity_is_reported_wherever_it_stands) {
  Sampler sampler(8);
  const SamplingParams params;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (size_t place = 0; place < 8; ++place) {
      std::vector<float> logits = kEightLogits;
      logits[place] = bad;
      SampleOutput output;
      EXPECT_EQ(sampler.sample({.logits = logits, .params = &params}, output),
                SampleStatus::kNonFinite);
    }
  }
  Sampler fresh(8);
  EXPECT_EQ(token_of(sampler, {.logits = kEightLogits, .params = &params}),
            token_of(fresh, {.logits = kEightLogits, .params = &params}));
}

TEST(Sampler, a_mask_without_a_token_is_reported) {
  Sampler sampler(8);
  const SamplingParams params;
  const uint64_t nothing = 0xff00;  // bits beyond the vocabulary do not count
  SampleOutput output;
  EXPECT_EQ(
      sampler.sample({.logits = kEightLogits, .params = &params, .allowed = {&nothing, 1}}, output),
      SampleStatus::kNothingAllowed);
}

TEST(Sampler, a_mask_is_honoured_by_every_draw) {
  constexpr size_t kVocab = 150;  // the last mask word is partly used
  Sampler sampler(kVocab);
  const std::vector<float> flat(kVocab, 0.0f);
  const std::vector<uint64_t> allowed = {0, uint64_t{1} << 5, uint64_t{1} << 21};
  const SamplingParams params;
  std::map<TokenId, int> seen;
  for (int position = 0; position < 200; ++position) {
    ++seen[token_of(sampler,
                    {.logits = flat, .params = &params, .position = position, .allowed = allowed})];
  }
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_GT(seen[69], 50);
  EXPECT_GT(seen[149], 50);
}

TEST(Sampler, logprobs_are_those_of_the_raw_logits_whatever_the_rules) {
  Sampler sampler(8);
  const SamplingParams params{
      .temperature = 0.5f, .top_k = 1, .logit_bias = {{7, 50.0f}}, .num_top_logprobs = 3};
  SampleOutput output;
  ASSERT_EQ(sampler.sample({.logits = kEightLogits, .params = &params}, output), SampleStatus::kOk);
  const std::vector<double> p = softmax(kEightLogits, 1.0);
  EXPECT_EQ(output.token, 7);
  EXPECT_NEAR(output.logprob, std::log(p[7]), 1e-6);
  ASSERT_EQ(output.num_top, 3);
  EXPECT_EQ(output.top_tokens[0], 3);
  EXPECT_EQ(output.top_tokens[1], 6);
  EXPECT_EQ(output.top_tokens[2], 0);
  EXPECT_NEAR(output.top_logprobs[0], std::log(p[3]), 1e-6);
  EXPECT_NEAR(output.top_logprobs[2], std::log(p[0]), 1e-6);
}

TEST(Sampler, top_logprobs_of_equal_logits_list_smaller_ids_first_and_stop_at_the_vocabulary) {
  Sampler sampler(5);
  const std::vector<float> logits = {0.0f, 1.0f, 1.0f, 0.0f, 1.0f};
  SamplingParams params{.num_top_logprobs = 20};
  SampleOutput output;
  ASSERT_EQ(sampler.sample({.logits = logits, .params = &params}, output), SampleStatus::kOk);
  ASSERT_EQ(output.num_top, 5);
  EXPECT_EQ(std::vector<TokenId>(output.top_tokens.begin(), output.top_tokens.begin() + 5),
            (std::vector<TokenId>{1, 2, 4, 0, 3}));
  params.num_top_logprobs = 0;
  ASSERT_EQ(sampler.sample({.logits = logits, .params = &params}, output), SampleStatus::kOk);
  EXPECT_EQ(output.num_top, 0);
}

TEST(Sampler, extreme_logits_and_temperatures_still_draw) {
  Sampler sampler(3);
  const std::vector<float> logits = {3e38f, -3e38f, 1e-45f};
  SamplingParams params{.temperature = 1e-37f, .top_p = 0.5f, .min_p = 0.5f, .num_top_logprobs = 3};
  SampleOutput output;
  ASSERT_EQ(sampler.sample({.logits = logits, .params = &params}, output), SampleStatus::kOk);
  EXPECT_EQ(output.token, 0);
  EXPECT_EQ(output.logprob, 0.0f);
  EXPECT_TRUE(std::isfinite(output.top_logprobs[1]));
}

}  // namespace
}  // namespace yeoul
