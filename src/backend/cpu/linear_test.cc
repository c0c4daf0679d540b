// Linear layers at the release's widths against float64.

#include <gtest/gtest.h>

#include <cstring>

#include "backend/cpu/test_values.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

struct LinearCase {
  WeightFormat format;
  ActivationRule activation;
  int64_t inputs;
  int64_t outputs;
};

std::vector<float> run_linear(const LinearCase& tested, const Weight& weight,
                              const std::vector<Bf16>& x, int64_t num_rows, int threads,
                              Accumulate accumulate = Accumulate::kFloat) {
  ThreadPool pool(threads);
  const auto ops = make_cpu_ops(accumulate, pool, {.linear_inputs_max = tested.inputs});
  std::vector<float> y(static_cast<size_t>(num_rows * tested.outputs), NAN);
  ops->linear({weight, tested.activation, x.data(), tested.inputs, num_rows, nullptr, y.data(),
               tested.outputs});
  return y;
}

class LinearWidths : public testing::TestWithParam<LinearCase> {};

TEST_P(LinearWidths, stay_within_the_bound_of_the_written_order) {
  const LinearCase& tested = GetParam();
  const TestWeight weight(tested.format, tested.outputs, tested.inputs, 1);
  constexpr int64_t kRows = 3;
  const std::vector<Bf16> x = test_bf16(2, kRows * tested.inputs, 4);
  const std::vector<float> narrow = run_linear(tested, weight.weight(), x, kRows, 1);
  const std::vector<float> wide =
      run_linear(tested, weight.weight(), x, kRows, 1, Accumulate::kDouble);
  // Roundings on the way of one product: its lane's chain in a segment, four joins of lanes, and at
  // most five of segments.
  const double chain = static_cast<double>(std::min<int64_t>(tested.inputs, 2048)) / 16 + 4 + 5;
  for (int64_t r = 0; r < kRows; ++r) {
    std::vector<float> operand(static_cast<size_t>(tested.inputs));
    for (size_t i = 0; i < operand.size(); ++i) {
      operand[i] = to_float(x[static_cast<size_t>(r * tested.inputs) + i]);
    }
    if (tested.activation == ActivationRule::kFp8) quantize_fp8(operand);
    for (int64_t o = 0; o < tested.outputs; ++o) {
      double sum = 0, magnitude = 0;
      for (int64_t k = 0; k < tested.inputs; ++k) {
        const double product =
            static_cast<double>(operand[static_cast<size_t>(k)]) * weight.value(o, k);
        sum += product;
        magnitude += std::fabs(product);
      }
      const auto at = static_cast<size_t>(r * tested.outputs + o);
      ASSERT_LE(std::fabs(static_cast<double>(narrow[at]) - sum), chain * 0x1p-24 * magnitude);
      ASSERT_LE(std::fabs(static_cast<double>(wide[at]) - sum),
                0x1p-24 * std::fabs(sum) + 1e-12 * magnitude);
    }
  }
}

TEST_P(LinearWidths, give_one_row_the_same_bits_alone_and_among_many_on_any_number_of_threads) {
  const LinearCase& tested = GetParam();
  const TestWeight weight(tested.format, tested.outputs, tested.inputs, 3);
  constexpr int64_t kRows = kRowBlock + 3;  // more than one block of rows
  const std::vector<Bf16> x = test_bf16(4, kRows * tested.inputs);
  const std::vector<float> many = run_linear(tested, weight.weight(), x, kRows, 1);
  EXPECT_EQ(run_linear(tested, weight.weight(), x, kRows, 3), many);
  for (const int64_t r : {int64_t{0}, int64_t{1}, kRowBlock - 1, kRowBlock, kRows - 1}) {
    const auto begin = x.begin() + r * tested.inputs;
    const std::vector<float> alone =
        run_linear(tested, weight.weight(), {begin, begin + tested.inputs}, 1, 1);
    EXPECT_EQ(
        std::memcmp(alone.data(), many.data() + r * tested.outputs, alone.size() * sizeof(float)),
        0)
        << "row " << r;
  }
}

std::string name_of(const testing::TestParamInfo<LinearCase>& tested) {
  const char* const names[] = {"bf16", "fp8", "fp4"};
  return std::string(names[static_cast<size_t>(tested.param.format)]) + "_" +
         std::to_string(tested.param.inputs) + "_" + std::to_string(tested.param.outputs);
}

// Outputs: one tile, tile +- 1, a partial tile of 32 rows.
INSTANTIATE_TEST_SUITE_P(
    Release, LinearWidths,
    testing::Values(LinearCase{WeightFormat::kFp8, ActivationRule::kFp8, 5120, 17},
                    LinearCase{WeightFormat::kFp8, ActivationRule::kFp8, 1280, 40},
                    LinearCase{WeightFormat::kFp8, ActivationRule::kAsIs, 4096, 16},
                    LinearCase{WeightFormat::kFp8, ActivationRule::kFp8, 8192, 15},
                    LinearCase{WeightFormat::kFp8, ActivationRule::kFp8, 6144, 33},
                    LinearCase{WeightFormat::kFp8, ActivationRule::kFp8, 2304, 1},
                    LinearCase{WeightFormat::kFp4, ActivationRule::kFp8, 5120, 17},
                    LinearCase{WeightFormat::kFp4, ActivationRule::kFp8, 2304, 31},
                    LinearCase{WeightFormat::kBf16, ActivationRule::kAsIs, 5120, 16},
                    LinearCase{WeightFormat::kBf16, ActivationRule::kAsIs, 512, 33},
                    LinearCase{WeightFormat::kBf16, ActivationRule::kAsIs, 47, 5}),
    name_of);

TEST(Linear, rounds_the_same_sums_to_bf16_and_leaves_other_columns_alone) {
  const LinearCase tested{WeightFormat::kFp8, ActivationRule::kFp8, 1280, 32};
  const TestWeight weight(tested.format, 32, 1280, 5);
  const std::vector<Bf16> x = test_bf16(6, 2 * 1280);
  const std::vector<float> wide = run_linear(tested, weight.weight(), x, 2, 1);
  ThreadPool pool(1);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, {.linear_inputs_max = 1280});
  std::vector<Bf16> y(2 * 40, Bf16{0xABCD});
  ops->linear({weight.weight(), tested.activation, x.data(), 1280, 2, y.data(), nullptr, 40});
  for (size_t r = 0; r < 2; ++r) {
    for (size_t o = 0; o < 40; ++o) {
      const Bf16 expected = o < 32 ? to_bf16(wide[32 * r + o]) : Bf16{0xABCD};
      EXPECT_EQ(y[40 * r + o].bits, expected.bits);
    }
  }
}

TEST(Linear, without_rows_touches_nothing) {
  const LinearCase tested{WeightFormat::kFp4, ActivationRule::kFp8, 64, 8};
  const TestWeight weight(tested.format, 8, 64, 5);
  EXPECT_TRUE(run_linear(tested, weight.weight(), {}, 0, 2).empty());
}

TEST(Linear, row_ranges_of_a_matrix_give_the_rows_of_the_whole) {
  for (const WeightFormat format : {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kFp4}) {
    const TestWeight weight(format, 96, 160, 7);
    const LinearCase whole{format, ActivationRule::kAsIs, 160, 96};
    const LinearCase part{format, ActivationRule::kAsIs, 160, 64};
    const std::vector<Bf16> x = test_bf16(8, 160);
    const std::vector<float> y = run_linear(whole, weight.weight(), x, 1, 1);
    EXPECT_EQ(run_linear(part, row_range(weight.weight(), 32, 64), x, 1, 1),
              (std::vector<float>{y.begin() + 32, y.end()}));
  }
}

}  // namespace
}  // namespace yeoul::cpu
