#include "tensor/formats/kv_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/counter_rng.h"
#include "tensor/formats/bf16.h"

namespace yeoul {
namespace {

// BF16 values over many orders of magnitude.
std::vector<float> random_row(uint64_t seed, size_t width) {
  std::vector<float> row(width);
  const double size = std::exp2(40 * unit_interval(mix64(seed)) - 20);
  for (size_t i = 0; i < width; ++i) {
    row[i] = round_bf16(static_cast<float>((2 * unit_interval(counter_bits(seed, i)) - 1) * size));
  }
  return row;
}

struct RowFormat {
  const char* name;
  size_t group;
  double step;   // largest distance of a value from its neighbour, over the group's largest value
  double floor;  // what counts as the largest value at least
  std::vector<float> (*round_trip)(const std::vector<float>&);
};

std::vector<float> through_fp8(const std::vector<float>& x) {
  std::vector<uint8_t> codes(x.size()), scales(x.size() / 32);
  std::vector<float> out(x.size());
  encode_fp8_row(x, {codes.data(), scales.data()});
  decode_fp8_row(codes.data(), scales.data(), out);
  return out;
}
std::vector<float> through_index(const std::vector<float>& x) {
  std::vector<uint8_t> codes(x.size() / 2), scales(x.size() / 32);
  std::vector<float> out(x.size());
  encode_index_row(x, codes.data(), scales.data());
  decode_index_row(codes.data(), scales.data(), out);
  return out;
}
std::vector<float> through_compressed(const std::vector<float>& x) {
  std::vector<uint8_t> codes(x.size() / 2), scales(x.size() / 16);
  std::vector<float> out(x.size());
  encode_compressed_row(x, codes.data(), scales.data());
  decode_compressed_row(codes.data(), scales.data(), out);
  return out;
}

// Steps at the top of the range, with a scale up to twice too large: e4m3 2 * 32 of 448, e2m1 2 * 2
// of
// 6. The e4m3 scale of compressed rows rounds both ways, at its smallest by a half: as much.
const RowFormat kFormats[] = {
    {"fp8", 32, 64.0 / 448, 1e-4, through_fp8},
    {"index", 32, 2.0 / 3, 6 * 0x1p-126, through_index},
    {"compressed", 16, 2.0 / 3, 6 * 0x1p-9, through_compressed},
};

class KvRows : public testing::TestWithParam<RowFormat> {};

TEST_P(KvRows, stay_within_half_a_step_and_are_bf16_values) {
  const RowFormat& format = GetParam();
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::vector<float> x = random_row(seed, 128);
    const std::vector<float> y = format.round_trip(x);
    for (size_t g = 0; g < x.size(); g += format.group) {
      double largest = format.floor;
      for (size_t i = g; i < g + format.group; ++i) {
        largest = std::max(largest, static_cast<double>(std::fabs(x[i])));
      }
      // Scales of compressed rows end at 448: larger groups are clamped to 2,688.
      if (format.group == 16 && largest > 6 * 448) continue;
      for (size_t i = g; i < g + format.group; ++i) {
        ASSERT_LE(std::fabs(x[i] - y[i]), format.step / 2 * largest) << seed << " " << i;
        ASSERT_EQ(round_bf16(y[i]), y[i]);
      }
    }
  }
}

TEST_P(KvRows, that_were_stored_once_do_not_change_when_stored_again) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    if (GetParam().group == 16) break;  // their e4m3 scale may round once more
    const std::vector<float> once = GetParam().round_trip(random_row(seed, 64));
    ASSERT_EQ(GetParam().round_trip(once), once) << seed;
  }
}

TEST_P(KvRows, of_zeros_are_zeros_and_groups_do_not_touch_each_other) {
  const RowFormat& format = GetParam();
  EXPECT_EQ(format.round_trip(std::vector<float>(64)), std::vector<float>(64));
  const std::vector<float> x = random_row(3, 64);
  std::vector<float> changed = x;
  for (size_t i = 32; i < 64; ++i) changed[i] *= 1024;
  const std::vector<float> y = format.round_trip(x), z = format.round_trip(changed);
  EXPECT_TRUE(std::equal(y.begin(), y.begin() + 32, z.begin()));
}

INSTANTIATE_TEST_SUITE_P(Formats, KvRows, testing::ValuesIn(kFormats),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Fp8Rows, rounding_in_place_is_encoding_and_decoding) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<float> x = random_row(seed, 96);
    const std::vector<float> stored = through_fp8(x);
    quantize_fp8(x);
    EXPECT_EQ(x, stored);
  }
}

TEST(Fp8Rows, a_value_that_is_not_a_number_stays_in_its_row_and_shows) {
  std::vector<float> x = random_row(1, 64);
  x[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(through_fp8(x)[40]));
}

}  // namespace
}  // namespace yeoul
