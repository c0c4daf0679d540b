// Every kernel against the scalar path, bit for bit, on every instruction set this machine has.

#include "backend/cpu/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/test_values.h"

namespace yeoul::cpu {
namespace {

class EveryIsa : public testing::TestWithParam<Isa> {
 protected:
  const Kernels& kernels() const { return kernels_for(GetParam()); }
};

std::string isa_of(const testing::TestParamInfo<Isa>& tested) {
  return name_of(tested.param);
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, testing::ValuesIn(available_isas()), isa_of);

struct TileCase {
  WeightFormat format;
  int64_t columns, outputs, rows;
};

// Sums of one tile; y is poisoned first.
std::vector<float> sums_of(const Kernels& kernels, const TileCase& tested, const Weight& weight,
                           const std::vector<uint16_t>& x, bool* done) {
  const int64_t len = operand_len(tested.columns);
  std::vector<float> y(static_cast<size_t>(tested.rows * kOutputTile), NAN);
  AlignedBuffer<float> expanded, segments;
  expanded.resize(static_cast<size_t>((kOutputTile + 1) * len));
  segments.resize(static_cast<size_t>((len + kSegment - 1) / kSegment * kRowBlock * kOutputTile));
  *done = kernels.linear({.weight = weight,
                          .first = 32,
                          .outputs = tested.outputs,
                          .x = x.data(),
                          .x_stride = len,
                          .rows = tested.rows,
                          .y = y.data(),
                          .expanded = expanded.data(),
                          .segments = segments.data()});
  std::vector<float> kept;
  for (int64_t r = 0; r < tested.rows; ++r) {
    const auto row = y.begin() + r * kOutputTile;
    kept.insert(kept.end(), row, row + tested.outputs);
  }
  return kept;
}

std::vector<uint16_t> operands(const Kernels& kernels, const TileCase& tested, bool fp8,
                               uint64_t seed, double size) {
  const int64_t len = operand_len(tested.columns);
  const std::vector<Bf16> x = test_bf16(seed, tested.rows * tested.columns, size);
  std::vector<uint16_t> out(static_cast<size_t>(tested.rows * len), uint16_t{0x7FC0});
  for (int64_t r = 0; r < tested.rows; ++r) {
    EXPECT_TRUE(
        kernels.load_operand({&x[static_cast<size_t>(r * tested.columns)].bits, tested.columns, fp8,
                              tested.format == WeightFormat::kFp4, out.data() + r * len}));
  }
  return out;
}

TEST_P(EveryIsa, sums_tiles_as_the_scalar_path_does) {
  const WeightFormat formats[] = {WeightFormat::kBf16, WeightFormat::kFp8, WeightFormat::kFp4};
  uint64_t seed = 1;
  for (const WeightFormat format : formats) {
    for (const int64_t columns :
         {32, 64, 96, 128, 160, 384, 2048, 2080, 2304, 4096, 4256, 5120, 8192}) {
      const TestWeight weight(format, 64, columns, ++seed);
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 12, 17, 128}) {
        if (rows > 7 && columns > 2304) continue;
        const TileCase tested{format, columns, rows % 2 == 0 ? 32 : 1 + rows, rows};
        const auto x = operands(scalar_kernels(), tested, columns % 64 == 0, seed, 3);
        bool done = false, expected_done = false;
        const auto found = sums_of(kernels(), tested, weight.weight(), x, &done);
        const auto expected = sums_of(scalar_kernels(), tested, weight.weight(), x, &expected_done);
        ASSERT_TRUE(done && expected_done);
        ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0)
            << "format " << static_cast<int>(format) << " columns " << columns << " rows " << rows;
      }
    }
  }
}

TEST_P(EveryIsa, refuses_scales_it_could_not_sum_exactly) {
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    for (const int scale :
         {kPlainScaleMin - 1, kPlainScaleMin, kPlainScaleMax, kPlainScaleMax + 1}) {
      TestWeight owner(format, 64, 256, 5);
      Weight weight = owner.weight();
      std::vector<uint8_t> scales(static_cast<size_t>(64 * 8), 120);
      // The last group of the tile's first row.
      scales[format == WeightFormat::kFp8 ? 8 + 7 : 32 * 8 + 7] = static_cast<uint8_t>(scale);
      weight.scales = scales.data();
      const TileCase tested{format, 256, 32, 1};
      const auto x = operands(scalar_kernels(), tested, true, 6, 1);
      bool done = false, scalar_done = false;
      const auto found = sums_of(kernels(), tested, weight, x, &done);
      const auto expected = sums_of(scalar_kernels(), tested, weight, x, &scalar_done);
      const bool plain = scale >= kPlainScaleMin && scale <= kPlainScaleMax;
      EXPECT_EQ(done, plain || GetParam() == Isa::kScalar);
      if (done) {
        EXPECT_EQ(found, expected);
      }
    }
  }
}

TEST_P(EveryIsa, sums_bf16_weights_of_any_size_or_refuses_them) {
  for (const int odd_one : {0x0001, 0x8001, 0x0080, 0x2680, 0x2700, 0x5380, 0x5400, 0x7F00}) {
    TestWeight owner(WeightFormat::kBf16, 64, 256, 5);
    Weight weight = owner.weight();
    std::vector<uint16_t> values(64 * 256);
    std::memcpy(values.data(), weight.data, values.size() * 2);
    values[40 * 256 + 77] = static_cast<uint16_t>(odd_one);
    weight.data = reinterpret_cast<const std::byte*>(values.data());
    const TileCase tested{WeightFormat::kBf16, 256, 32, 2};
    auto x = operands(scalar_kernels(), tested, false, 6, 1);
    for (size_t i = 0; i < x.size(); i += 7) x[i] = kPlainExponentMin << 7;
    bool done = false, scalar_done = false;
    const auto found = sums_of(kernels(), tested, weight, x, &done);
    const auto expected = sums_of(scalar_kernels(), tested, weight, x, &scalar_done);
    if (done) {
      EXPECT_EQ(found, expected) << odd_one;
    }
  }
}

TEST_P(EveryIsa, refuses_a_nan_code_or_hands_it_on) {
  std::vector<uint8_t> codes(64 * 128, 0x38), scales(64 * 4, 127);
  codes[40 * 128 + 5] = 0xFF;
  const Weight weight{WeightFormat::kFp8, reinterpret_cast<const std::byte*>(codes.data()),
                      scales.data(), 64, 128};
  const TileCase tested{WeightFormat::kFp8, 128, 32, 1};
  const auto x = operands(scalar_kernels(), tested, true, 6, 1);
  bool done = false;
  const auto found = sums_of(kernels(), tested, weight, x, &done);
  for (size_t o = 0; done && o < 32; ++o) EXPECT_EQ(std::isnan(found[o]), o == 8) << o;
}

TEST_P(EveryIsa, sums_every_code_at_the_ends_of_the_plain_range) {
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    const int64_t columns = 2176;
    std::vector<uint8_t> codes(static_cast<size_t>(64 * columns)),
        scales(static_cast<size_t>(64 * columns / 32));
    for (size_t i = 0; i < codes.size(); ++i) {
      codes[i] = static_cast<uint8_t>(i * 7 + i / 256);
      if (format == WeightFormat::kFp8 && (codes[i] & 0x7F) == 0x7F) codes[i] = 1;
    }
    for (size_t i = 0; i < scales.size(); ++i) {
      scales[i] = static_cast<uint8_t>(i % 3 == 0 ? kPlainScaleMin : kPlainScaleMax);
    }
    const Weight weight{format, reinterpret_cast<const std::byte*>(codes.data()), scales.data(), 64,
                        columns};
    for (const int exponent : {kPlainExponentMin, kPlainExponentMax}) {
      for (const int64_t rows : {1, 4}) {
        const TileCase tested{format, columns, 32, rows};
        std::vector<uint16_t> x(static_cast<size_t>(rows * columns));
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = static_cast<uint16_t>(exponent << 7 | (counter_bits(5, i) & 0x807F));
        }
        for (size_t i = 0; i < x.size(); i += 5) x[i] = static_cast<uint16_t>(i % 2 << 15);
        bool done = false, scalar_done = false;
        const auto found = sums_of(kernels(), tested, weight, x, &done);
        const auto expected = sums_of(scalar_kernels(), tested, weight, x, &scalar_done);
        ASSERT_TRUE(done);
        ASSERT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
      }
    }
  }
}

TEST_P(EveryIsa, loads_operands_as_the_scalar_path_does) {
  uint64_t seed = 100;
  for (const int64_t columns : {32, 96, 128, 160, 512, 5120}) {
    for (const double size : {1e-6, 1.0, 1e4, 1e30}) {
      for (const bool fp8 : {false, true}) {
        for (const bool nibbles : {false, true}) {
          std::vector<Bf16> x = test_bf16(++seed, columns, size);
          x[0] = Bf16{0x8000};
          x[static_cast<size_t>(columns) - 1] = to_bf16(static_cast<float>(size * 1e-3));
          const auto len = static_cast<size_t>(operand_len(columns));
          std::vector<uint16_t> found(len, uint16_t{0x7FC0}), expected(len, uint16_t{0x7FC1});
          const bool plain =
              kernels().load_operand({&x[0].bits, columns, fp8, nibbles, found.data()});
          EXPECT_EQ(plain, scalar_kernels().load_operand(
                               {&x[0].bits, columns, fp8, nibbles, expected.data()}));
          EXPECT_EQ(found, expected) << columns << " " << size << " " << fp8 << nibbles;
        }
      }
    }
  }
}

TEST_P(EveryIsa, rounds_every_value_to_fp8_as_the_scalar_path_does) {
  // Each BF16 number once, as the only large one of its group or beside a larger one.
  for (uint32_t bits = 0; bits < 0x10000; bits += 31) {
    for (const uint16_t beside :
         {uint16_t{0}, uint16_t{0x3F80}, uint16_t{0x43E0}, uint16_t{0x7F7F}}) {
      std::vector<Bf16> x(64);
      for (uint32_t i = 0; i < 31; ++i) x[i] = Bf16{static_cast<uint16_t>(bits + i)};
      x[31].bits = beside;
      std::vector<uint16_t> found(128), expected(128);
      const bool plain = kernels().load_operand({&x[0].bits, 64, true, false, found.data()});
      EXPECT_EQ(plain,
                scalar_kernels().load_operand({&x[0].bits, 64, true, false, expected.data()}));
      ASSERT_EQ(found, expected) << bits;
    }
  }
}

TEST_P(EveryIsa, tells_plain_rows_from_others) {
  const auto is_plain = [&](uint16_t odd_one) {
    std::vector<Bf16> x = test_bf16(3, 256);
    x[77].bits = odd_one;
    std::vector<uint16_t> out(256);
    return kernels().load_operand({&x[0].bits, 256, false, false, out.data()});
  };
  EXPECT_TRUE(is_plain(0));
  EXPECT_TRUE(is_plain(0x8000));
  EXPECT_TRUE(is_plain(kPlainExponentMin << 7));
  EXPECT_TRUE(is_plain(kPlainExponentMax << 7 | 0x807F));
  EXPECT_FALSE(is_plain((kPlainExponentMin << 7) - 1));
  EXPECT_FALSE(is_plain((kPlainExponentMax + 1) << 7));
  EXPECT_FALSE(is_plain(1));       // denormal
  EXPECT_FALSE(is_plain(0x7F80));  // infinity
  EXPECT_FALSE(is_plain(0xFFC0));  // NaN
}

TEST_P(EveryIsa, activates_experts_as_the_scalar_path_does) {
  std::vector<float> gate = test_floats(1, 1000, 30), up = test_floats(2, 1000, 20);
  const float special[] = {0.f,      -0.f,      88.5f,  -88.5f,  -200.f, 1e30f,  -1e30f,
                           INFINITY, -INFINITY, 1e-40f, -1e-40f, 10.f,   10.03f, -10.f};
  std::copy(std::begin(special), std::end(special), gate.begin());
  std::copy(std::begin(special), std::end(special), up.begin() + 5);
  for (const int64_t n : {1, 15, 16, 32, 1000}) {
    for (const bool weighted : {false, true}) {
      std::vector<uint16_t> found(static_cast<size_t>(n) + 1, uint16_t{0xABCD}), expected = found;
      kernels().gate_up(gate.data(), up.data(), n, 10, weighted, 0.37f, found.data());
      scalar_kernels().gate_up(gate.data(), up.data(), n, 10, weighted, 0.37f, expected.data());
      EXPECT_EQ(found, expected);
    }
  }
}

TEST_P(EveryIsa, a_nan_stays_one_in_the_activation) {
  const float gate[3] = {NAN, 1, 1}, up[3] = {1, NAN, 1};
  uint16_t out[3] = {};
  kernels().gate_up(gate, up, 3, 10, true, 0.5f, out);
  EXPECT_TRUE(std::isnan(to_float(Bf16{out[0]})) && std::isnan(to_float(Bf16{out[1]})));
  EXPECT_FALSE(std::isnan(to_float(Bf16{out[2]})));
}

TEST(Isa, names_are_read_back_and_others_refused) {
  for (const Isa isa : available_isas()) EXPECT_EQ(parse_isa(name_of(isa)), isa);
  EXPECT_EQ(parse_isa("auto"), best_isa());
  const Result<Isa> unknown = parse_isa("sse9");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("scalar"), std::string::npos);
}

}  // namespace
}  // namespace yeoul::cpu
