// Router and experts at the release's widths: 384 experts, 5,120 and 2,304 channels.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/test_values.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

struct Routed {
  std::vector<int32_t> experts;
  std::vector<float> weights, scores;
};

Routed run_route(const Weight& gate, const std::vector<float>& bias,
                 const std::vector<float>& image_bias, const std::vector<Bf16>& x, int64_t num_rows,
                 const std::vector<uint8_t>& is_image, int32_t chosen, int threads = 1) {
  ThreadPool pool(threads);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool,
                                {.linear_inputs_max = gate.cols,
                                 .hidden = gate.cols,
                                 .copies = 4,
                                 .experts = static_cast<int32_t>(gate.rows)});
  Routed out{std::vector<int32_t>(static_cast<size_t>(num_rows * chosen), -1),
             std::vector<float>(static_cast<size_t>(num_rows * chosen), NAN),
             std::vector<float>(static_cast<size_t>(num_rows * gate.rows), NAN)};
  ops->route({gate, bias.data(), image_bias.data(), 1.0f, x.data(), num_rows, first_rows(num_rows),
              is_image.data(), chosen, true, 1.5f, out.experts.data(), out.weights.data(),
              out.scores.data()});
  return out;
}

TEST(Route, chooses_the_six_best_of_384_by_biased_score_and_weighs_by_the_unbiased) {
  const TestWeight gate(WeightFormat::kBf16, 384, 5120, 1);
  const std::vector<float> bias = test_floats(2, 384, 0.3), image_bias = test_floats(3, 384, 0.6);
  const std::vector<Bf16> x = test_bf16(4, 4 * 5120);
  const std::vector<uint8_t> is_image = {0, 1, 0, 1};
  const Routed found = run_route(gate.weight(), bias, image_bias, x, 4, is_image, 6);
  for (size_t r = 0; r < 4; ++r) {
    const std::vector<float>& used = is_image[r] != 0 ? image_bias : bias;
    std::vector<int32_t> order = first_rows(384);
    const float* score = found.scores.data() + 384 * r;
    for (int64_t e = 0; e < 384; e += 5) {
      double sum = 0;
      for (int64_t k = 0; k < 5120; ++k) {
        sum +=
            gate.value(e, k) * static_cast<double>(to_float(x[5120 * r + static_cast<size_t>(k)]));
      }
      ASSERT_NEAR(score[e], std::sqrt(std::log1p(std::exp(sum))), 1e-5);
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      const auto i = static_cast<size_t>(a), j = static_cast<size_t>(b);
      return score[i] + used[i] > score[j] + used[j];
    });
    double total = 0;
    for (size_t j = 0; j < 6; ++j) {
      EXPECT_EQ(found.experts[6 * r + j], order[j]);
      total += static_cast<double>(score[order[j]]);
    }
    for (size_t j = 0; j < 6; ++j) {
      EXPECT_FLOAT_EQ(found.weights[6 * r + j],
                      static_cast<float>(static_cast<double>(score[order[j]]) / total * 1.5));
    }
  }
  // The same rows alone, and on three threads.
  EXPECT_EQ(run_route(gate.weight(), bias, image_bias, x, 4, is_image, 6, 3).weights,
            found.weights);
  const Routed alone = run_route(gate.weight(), bias, image_bias,
                                 {x.begin() + 5120, x.begin() + 2 * 5120}, 1, {1}, 6);
  EXPECT_EQ(std::memcmp(alone.weights.data(), found.weights.data() + 6, 6 * sizeof(float)), 0);
}

TEST(Route, breaks_ties_to_the_smaller_expert_and_takes_not_a_number_last) {
  const TestWeight gate(WeightFormat::kBf16, 16, 64, 1);
  const std::vector<Bf16> zero(64);  // every score is sqrt(log 2)
  std::vector<float> bias(16, 0.25f);
  const std::vector<uint8_t> is_image = {0};
  EXPECT_EQ(run_route(gate.weight(), bias, bias, zero, 1, is_image, 4).experts,
            (std::vector<int32_t>{0, 1, 2, 3}));
  bias[9] = 0.5f;
  bias[0] = bias[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(run_route(gate.weight(), bias, bias, zero, 1, is_image, 4).experts,
            (std::vector<int32_t>{9, 1, 3, 4}));
  // More experts wanted than have a number.
  const std::vector<float> none(16, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(run_route(gate.weight(), none, none, zero, 1, is_image, 4).experts,
            (std::vector<int32_t>{0, 1, 2, 3}));
}

constexpr int64_t kHidden = 5120, kInner = 64;  // few inner channels: the reference is slow

struct Expert {
  explicit Expert(WeightFormat format)
      : w1(format, kInner, kHidden, 11),
        w2(format, kHidden, kInner, 12),
        w3(format, kInner, kHidden, 13) {}
  ExpertWeights weights() const { return {w1.weight(), w2.weight(), w3.weight()}; }
  TestWeight w1, w2, w3;
};

std::vector<Bf16> run_expert(const Expert& expert, const std::vector<Bf16>& x,
                             const std::vector<int32_t>& rows, const std::vector<float>& weights,
                             int threads) {
  ThreadPool pool(threads);
  const auto ops = make_cpu_ops(
      Accumulate::kFloat, pool,
      {.linear_inputs_max = kHidden, .hidden = kHidden, .copies = 1, .expert_width = kInner});
  std::vector<Bf16> out(rows.size() * kHidden, Bf16{0x7FC0});
  ops->expert({expert.weights(), x.data(), rows, first_rows(static_cast<int64_t>(rows.size())),
               weights.data(), 10.0f, out.data()});
  return out;
}

std::vector<double> times(const TestWeight& weight, int64_t outputs, const std::vector<float>& x) {
  std::vector<double> y(static_cast<size_t>(outputs));
  for (int64_t o = 0; o < outputs; ++o) {
    for (size_t k = 0; k < x.size(); ++k) {
      y[static_cast<size_t>(o)] +=
          weight.value(o, static_cast<int64_t>(k)) * static_cast<double>(x[k]);
    }
  }
  return y;
}

TEST(Expert, is_a_clamped_swiglu_weighted_before_the_last_matrix) {
  for (const WeightFormat format : {WeightFormat::kFp4, WeightFormat::kFp8}) {
    const Expert expert(format);
    const std::vector<Bf16> x = test_bf16(14, 2 * kHidden);
    const std::vector<float> weights = {0.7f, 0.2f};
    const std::vector<Bf16> found = run_expert(expert, x, {1, 0}, weights, 1);
    for (size_t p = 0; p < 2; ++p) {
      std::vector<float> input(kHidden);
      for (size_t d = 0; d < input.size(); ++d) input[d] = to_float(x[(1 - p) * kHidden + d]);
      quantize_fp8(input);
      const std::vector<double> gate = times(expert.w1, kInner, input);
      const std::vector<double> up = times(expert.w3, kInner, input);
      std::vector<float> inner(kInner);
      for (size_t f = 0; f < inner.size(); ++f) {
        const double g = std::min<double>(round_bf16(static_cast<float>(gate[f])), 10);
        const double v = std::clamp<double>(round_bf16(static_cast<float>(up[f])), -10, 10);
        inner[f] = round_bf16(
            static_cast<float>(g / (1 + std::exp(-g)) * v * static_cast<double>(weights[p])));
      }
      quantize_fp8(inner);
      const std::vector<double> expected = times(expert.w2, kHidden, inner);
      double error = 0, size = 0;
      for (size_t d = 0; d < kHidden; ++d) {
        const double difference =
            static_cast<double>(to_float(found[p * kHidden + d])) - expected[d];
        error += difference * difference;
        size += expected[d] * expected[d];
      }
      // BF16 of the result: relative rms 2^-9 / sqrt(3); codes at ties may add to it.
      EXPECT_LE(std::sqrt(error / size), 0.003);
    }
  }
}

TEST(Expert, gives_a_row_the_same_bits_alone_and_among_many_on_any_number_of_threads) {
  const Expert expert(WeightFormat::kFp4);
  constexpr int64_t kRows = kRowBlock + 2;
  const std::vector<Bf16> x = test_bf16(15, kRows * kHidden);
  const std::vector<float> weights = test_floats(16, kRows);
  const std::vector<Bf16> many = run_expert(expert, x, first_rows(kRows), weights, 1);
  EXPECT_EQ(run_expert(expert, x, first_rows(kRows), weights, 3), many);
  for (const int32_t r : {0, 1, 127, 128, 129}) {
    const std::vector<Bf16> alone =
        run_expert(expert, x, {r}, {weights[static_cast<size_t>(r)]}, 1);
    EXPECT_EQ(std::memcmp(alone.data(), many.data() + r * kHidden, alone.size() * sizeof(Bf16)), 0)
        << r;
  }
}

TEST(Combine, adds_experts_in_ascending_order_and_the_shared_one_last) {
  ThreadPool pool(1);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, {.hidden = 8, .copies = 1});
  const std::vector<Bf16> outputs = test_bf16(17, 3 * 8, 100), shared = test_bf16(18, 8);
  const std::vector<int32_t> experts = {5, 300, 2};
  std::vector<Bf16> out(8);
  std::vector<float> routed(8);
  ops->combine({outputs.data(), experts.data(), shared.data(), 1, 8, 3, out.data(), routed.data()});
  for (size_t d = 0; d < 8; ++d) {
    const float sum = (to_float(outputs[16 + d]) + to_float(outputs[d])) + to_float(outputs[8 + d]);
    EXPECT_EQ(routed[d], sum);
    EXPECT_EQ(out[d].bits, to_bf16(sum + to_float(shared[d])).bits);
  }
}

}  // namespace
}  // namespace yeoul::cpu
