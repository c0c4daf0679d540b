#include "backend/cpu/sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/counter_rng.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul::cpu {
namespace {

std::vector<float> bf16_values(uint64_t seed, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double u = unit_interval(mix64(seed * 1000003 + static_cast<uint64_t>(i)));
    values[static_cast<size_t>(i)] = round_bf16(static_cast<float>((u - 0.5) * 8));
  }
  return values;
}

// The order of docs/numerics.md, written a second time in the words of that page: natural order,
// one output, no blocks.
float dot_by_the_book(std::vector<float> a, std::vector<float> b) {
  a.resize(static_cast<size_t>(padded(static_cast<int64_t>(a.size()))));
  b.resize(a.size());
  const auto flushed = [](float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.f, x) : x; };
  std::vector<float> sums;
  for (size_t start = 0; start < a.size(); start += 2048) {
    float lanes[16] = {};
    for (size_t g = start; g < std::min(start + 2048, a.size()); g += 32) {
      for (size_t l = 0; l < 16; ++l) {
        for (const size_t i : {g + 2 * l + 1, g + 2 * l}) {
          lanes[l] = flushed(std::fma(flushed(a[i]), flushed(b[i]), lanes[l]));
        }
      }
    }
    for (size_t half : {8, 4, 2, 1}) {
      for (size_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    sums.push_back(lanes[0]);
  }
  while (sums.size() > 1) {
    std::vector<float> next;
    for (size_t i = 0; i + 1 < sums.size(); i += 2) next.push_back(sums[i] + sums[i + 1]);
    if (sums.size() % 2 != 0) next.push_back(sums.back());
    sums = next;
  }
  return sums[0];
}

TEST(Sums, dots_follow_the_written_order_for_every_length_and_count) {
  for (const int64_t k : {1, 16, 31, 32, 33, 96, 2048, 2080, 5120, 6144, 20480}) {
    const int64_t stride = padded(k);
    const std::vector<float> x = bf16_values(1, k);
    std::vector<float> x_lanes(static_cast<size_t>(stride)), w_lanes;
    to_lane_order(x.data(), k, x_lanes.data());
    std::vector<std::vector<float>> w;
    for (uint64_t j = 0; j < 7; ++j) {
      w.push_back(bf16_values(j + 2, k));
      w_lanes.resize(w_lanes.size() + static_cast<size_t>(stride));
      to_lane_order(w.back().data(), k, w_lanes.data() + static_cast<int64_t>(j) * stride);
    }
    std::vector<float> found(7, NAN);
    dots(x_lanes.data(), w_lanes.data(), stride, stride, 7, found.data());
    for (size_t j = 0; j < 7; ++j) {
      EXPECT_EQ(found[j], dot_by_the_book(x, w[j])) << "k " << k << " output " << j;
    }
  }
}

TEST(Sums, denormal_operands_and_results_count_as_zero) {
  std::vector<float> x(32, 0x1p-130f), w(32, 1.0f), lanes(32), weights(32);
  to_lane_order(x.data(), 32, lanes.data());
  to_lane_order(w.data(), 32, weights.data());
  float result = NAN;
  dots(lanes.data(), weights.data(), 32, 32, 1, &result);
  EXPECT_EQ(result, 0);
  std::fill(x.begin(), x.end(), 0x1p-70f);
  std::fill(w.begin(), w.end(), 0x1p-70f);
  to_lane_order(x.data(), 32, lanes.data());
  to_lane_order(w.data(), 32, weights.data());
  dots(lanes.data(), weights.data(), 32, 32, 1, &result);
  EXPECT_EQ(result, 0);
  double exact = 0;
  dots(lanes.data(), weights.data(), 32, 32, 1, &exact);
  EXPECT_EQ(exact, 32 * 0x1p-140);
}

TEST(Sums, lane_order_round_trips) {
  for (const int64_t n : {1, 5, 32, 40, 96}) {
    const std::vector<float> x = bf16_values(9, n);
    std::vector<float> lanes(static_cast<size_t>(padded(n)), NAN), back(static_cast<size_t>(n));
    to_lane_order(x.data(), n, lanes.data());
    from_lane_order(lanes.data(), n, back.data());
    EXPECT_EQ(back, x);
    EXPECT_EQ(std::count_if(lanes.begin(), lanes.end(), [](float v) { return std::isnan(v); }), 0);
  }
}

TEST(Sums, values_are_added_odd_slot_first_and_empty_slots_are_skipped) {
  const std::vector<float> k0 = bf16_values(1, 8), k1 = bf16_values(2, 8), k3 = bf16_values(3, 8);
  const float* keys[4] = {k0.data(), k1.data(), nullptr, k3.data()};
  const float p[4] = {0.3f, 0.7f, NAN, 0.11f};
  std::vector<float> sum(8, 0.0f);
  add_values(p, keys, 4, 8, sum.data());
  for (size_t d = 0; d < 8; ++d) {
    const float expected = std::fma(p[3], k3[d], std::fma(p[0], k0[d], std::fma(p[1], k1[d], 0.f)));
    EXPECT_EQ(sum[d], expected);
  }
}

TEST(Sums, expanded_rows_hold_code_times_scale) {
  // 40 columns: a whole group and a part of one, two row tiles.
  std::vector<uint8_t> codes(33 * 40), scales = {127, 128, 120, 131};
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i % 126);
  const Weight weight{WeightFormat::kFp8, reinterpret_cast<const std::byte*>(codes.data()),
                      scales.data(), 33, 40};
  std::vector<float> lanes(static_cast<size_t>(operand_len(40))), row(40);
  for (const int64_t r : {0, 31, 32}) {
    expand_row(weight, r, lanes.data());
    from_lane_order(lanes.data(), 40, row.data());
    for (size_t c = 0; c < 40; ++c) {
      const float expected = e4m3_to_float(codes[static_cast<size_t>(r) * 40 + c]) *
                             ue8m0_to_float(scales[static_cast<size_t>(r) / 32 * 2 + c / 32]);
      EXPECT_EQ(row[c], expected) << r << " " << c;
    }
  }
}

TEST(Sums, fp4_rows_are_expanded_nibble_by_nibble_of_16_bit_words) {
  // Every code in both nibbles; a block of 128 columns and part of one.
  std::vector<uint8_t> codes(80);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i * 17 + i / 16);
  const std::vector<uint8_t> scales = {127, 128, 120, 131, 126};
  const Weight weight{WeightFormat::kFp4, reinterpret_cast<const std::byte*>(codes.data()),
                      scales.data(), 1, 160};
  std::vector<float> lanes(256, NAN), positions(256);
  expand_row(weight, 0, lanes.data());
  from_lane_order(lanes.data(), 256, positions.data());
  for (size_t p = 0; p < 256; ++p) {
    const size_t column = p / 128 * 128 + 4 * (p % 32) + p % 128 / 32;
    float expected = 0;
    if (column < 160) {
      const int code = column % 2 == 0 ? codes[column / 2] & 15 : codes[column / 2] >> 4;
      expected = kE2m1Values[static_cast<size_t>(code)] * ue8m0_to_float(scales[column / 32]);
    }
    EXPECT_EQ(positions[p], expected) << p;
  }
}

}  // namespace
}  // namespace yeoul::cpu
