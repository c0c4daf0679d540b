#pragma once

// Random weights and rows at the widths of the release (config.json), for measurements.

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/ops.h"
#include "base/counter_rng.h"

namespace yeoul::speed {

inline constexpr int64_t kHidden = 5120, kQueryRank = 1280, kHeads = 64, kHeadDim = 512;
inline constexpr int64_t kExpertWidth = 2304, kIndexHeads = 32, kIndexDim = 128, kTopK = 512;
inline constexpr int32_t kWindow = 128, kCopies = 4, kExperts = 384, kChosen = 6;

inline OpsLimits release_limits(int64_t context) {
  return {.linear_inputs_max = 8192,
          .hidden = kHidden,
          .copies = kCopies,
          .heads = kHeads,
          .head_dim = kHeadDim,
          .window = kWindow,
          .top_k = kTopK,
          .index_heads = kIndexHeads,
          .index_head_dim = kIndexDim,
          .index_rows_max = context,
          .block_size = 8,
          .experts = kExperts,
          .expert_width = kExpertWidth};
}

inline void fill_random(uint8_t* bytes, size_t count, uint64_t seed) {
  for (size_t i = 0; i + 8 <= count; i += 8) {
    const uint64_t bits = mix64(seed + i);
    __builtin_memcpy(bytes + i, &bits, 8);
  }
}

inline std::vector<Bf16> random_rows(int64_t count, uint64_t seed) {
  std::vector<Bf16> rows(static_cast<size_t>(count));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = to_bf16(static_cast<float>(2 * unit_interval(counter_bits(mix64(seed), i)) - 1));
  }
  return rows;
}

// Weight bytes on cache lines; codes random (no NaN), scales near 2^-8.
class RandomWeight {
 public:
  RandomWeight(WeightFormat format, int64_t rows, int64_t cols, uint64_t seed) {
    const auto elements = static_cast<size_t>(rows * cols);
    const size_t bytes = format == WeightFormat::kBf16  ? 2 * elements
                         : format == WeightFormat::kFp8 ? elements
                                                        : elements / 2;
    codes_.resize(bytes);
    fill_random(codes_.data(), bytes, seed);
    for (size_t i = 0; i < bytes; ++i) {
      if (format == WeightFormat::kFp8) codes_[i] &= 0xF7;  // never 0x7F
      if (format == WeightFormat::kBf16 && i % 2 == 1)
        codes_[i] = static_cast<uint8_t>(0x3C | (codes_[i] & 0x80));
    }
    scales_.resize(static_cast<size_t>((format == WeightFormat::kFp4 ? rows : (rows + 31) / 32) *
                                       ((cols + 31) / 32)));
    for (size_t i = 0; i < scales_.size(); ++i) {
      scales_[i] = static_cast<uint8_t>(118 + mix64(seed + i) % 3);
    }
    weight_ = {format, reinterpret_cast<const std::byte*>(codes_.data()), scales_.data(), rows,
               cols};
    bytes_ = static_cast<double>(bytes + (format == WeightFormat::kBf16 ? 0 : scales_.size()));
  }
  const Weight& weight() const { return weight_; }
  double bytes() const { return bytes_; }

 private:
  cpu::AlignedBuffer<uint8_t> codes_;
  std::vector<uint8_t> scales_;
  Weight weight_;
  double bytes_ = 0;
};

}  // namespace yeoul::speed
