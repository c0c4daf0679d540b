#include "checkpoint/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"

namespace yeoul {
namespace {

std::vector<std::byte> bytes_of(const RandomWeights& weights, const ExpectedTensor& tensor,
                                size_t num_bytes, size_t piece) {
  std::vector<std::byte> out(num_bytes);
  for (size_t at = 0; at < num_bytes; at += piece) {
    weights.fill(tensor, at, std::span(out).subspan(at, std::min(piece, num_bytes - at)));
  }
  return out;
}

const ExpectedTensor kTensors[] = {
    {"norm.weight", Dtype::kF32, {1024}},
    {"embed.weight", Dtype::kBf16, {64, 32}},
    {"layers.0.attn.wq_a.weight", Dtype::kF8E4m3, {128, 32}},
    {"layers.0.attn.wq_a.scale", Dtype::kF8E8m0, {64, 64}},
    {"layers.0.ffn.experts.3.w1.weight", Dtype::kI8, {128, 32}},
};

TEST(RandomWeights, do_not_depend_on_how_a_tensor_is_cut) {
  const RandomWeights weights(7);
  for (const ExpectedTensor& tensor : kTensors) {
    const auto whole = bytes_of(weights, tensor, 4096, 4096);
    EXPECT_EQ(bytes_of(weights, tensor, 4096, 8), whole) << tensor.name;
    EXPECT_EQ(bytes_of(weights, tensor, 4096, 1000), whole) << tensor.name;
  }
}

TEST(RandomWeights, differ_with_the_seed_and_the_tensor) {
  std::set<std::vector<std::byte>> seen;
  for (const uint64_t seed : {0, 1, 2}) {
    for (ExpectedTensor tensor : kTensors) {
      for (const char* prefix : {"", "layers.1."}) {
        tensor.name = prefix + tensor.name;
        EXPECT_TRUE(seen.insert(bytes_of(RandomWeights(seed), tensor, 4096, 4096)).second)
            << seed << " " << tensor.name;
      }
    }
  }
}

TEST(RandomWeights, codes_of_an_fp8_matrix_are_finite_and_spread_as_meant) {
  const auto codes = bytes_of(RandomWeights(3), kTensors[2], 1 << 16, 1 << 16);
  double sum = 0, squares = 0;
  for (const std::byte code : codes) {
    const double value = static_cast<double>(e4m3_to_float(std::to_integer<uint8_t>(code)));
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  const auto count = static_cast<double>(codes.size());
  EXPECT_NEAR(sum / count, 0, 1.5);
  EXPECT_NEAR(std::sqrt(squares / count), 64, 1.5);
}

TEST(RandomWeights, every_fp4_value_is_as_frequent_as_the_others) {
  const auto pairs = bytes_of(RandomWeights(3), kTensors[4], 1 << 16, 1 << 16);
  int counts[16] = {};
  for (const std::byte pair : pairs) {
    ++counts[std::to_integer<int>(pair) & 15];
    ++counts[std::to_integer<int>(pair) >> 4];
  }
  EXPECT_EQ(counts[8], 0);  // the second zero
  for (int code = 0; code < 16; ++code) {
    if (code == 8) continue;
    EXPECT_NEAR(counts[code], (2 << 16) / 15, 500) << code;
  }
}

}  // namespace
}  // namespace yeoul
