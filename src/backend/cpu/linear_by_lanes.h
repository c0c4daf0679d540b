#pragma once

// Tiles of linear layers in float32 fma steps, for instruction sets without a BF16 dot product that
// keeps the written order. `Lanes` holds the 16 lanes of that order in registers and knows how to
// expand codes; this file is included by one file for each instruction set, with its flags.

#include "backend/cpu/kernels.h"

namespace yeoul::cpu {
namespace {

// BF16 weights whose products with plain operands stay normal: nonzero in [2^-49, 2^40].
constexpr int kPlainWeightMin = 127 - 49, kPlainWeightMax = 127 + 40;

inline int64_t lesser(int64_t a, int64_t b) {
  return a < b ? a : b;
}

inline float power_of_two(int exponent) {
  const auto bits = static_cast<uint32_t>(exponent + 127) << 23;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

// l += l+8, l += l+4, l += l+2, l += l+1.
inline float joined(const float* lanes) {
  float sums[8];
  for (int l = 0; l < 8; ++l) sums[l] = lanes[l] + lanes[l + 8];
  for (int half = 4; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

// Segments in pairs, again and again; an odd one moves up. `stride` from one segment to the next.
inline float joined_segments(float* sums, int64_t stride, int64_t count) {
  while (count > 1) {
    const int64_t pairs = count / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      sums[i * stride] = sums[2 * i * stride] + sums[(2 * i + 1) * stride];
    }
    if (count % 2 != 0) sums[pairs * stride] = sums[(count - 1) * stride];
    count = pairs + count % 2;
  }
  return sums[0];
}

template <typename Lanes>
class LinearByLanes {
 public:
  static bool run(const LinearTile& tile) { return LinearByLanes(tile).sum(); }

 private:
  explicit LinearByLanes(const LinearTile& tile)
      : tile_(tile), columns_(tile.weight.cols), len_(operand_len(tile.weight.cols)) {
    const Weight& w = tile.weight;
    const int64_t bits = w.format == WeightFormat::kBf16  ? 16
                         : w.format == WeightFormat::kFp8 ? 8
                                                          : 4;
    row_bytes_ = w.cols * bits / 8;
    codes_ = reinterpret_cast<const uint8_t*>(w.data) + tile.first * row_bytes_;
    groups_ = w.cols / kGroup;
    scales_ = w.scales;
    if (w.format == WeightFormat::kFp4) scales_ += tile.first * groups_;
    if (w.format == WeightFormat::kFp8) scales_ += tile.first / 32 * groups_;
  }

  bool sum() {
    if (columns_ % kGroup != 0 || !plain()) return false;
    // Two outputs at a time: their expanded rows of one segment, then three rows of x at a time.
    float* expanded = tile_.expanded;
    const int64_t segments = (len_ + kSegment - 1) / kSegment;
    for (int64_t o = 0; o < tile_.outputs; o += 2) {
      for (int64_t s = 0; s < segments; ++s) {
        const int64_t begin = s * kSegment, end = lesser(begin + kSegment, len_);
        for (int64_t i = 0; i < 2; ++i) {
          expand(lesser(o + i, tile_.outputs - 1), begin, end, expanded + i * kSegment);
        }
        float* out = tile_.segments + s * tile_.rows * kOutputTile + o;
        const uint16_t* x = tile_.x + begin;
        int64_t r = 0;
        for (; r + 3 <= tile_.rows; r += 3) dots<3>(x, r, expanded, end - begin, out);
        for (; r < tile_.rows; ++r) dots<1>(x, r, expanded, end - begin, out);
      }
    }
    for (int64_t at = 0; at < tile_.rows * kOutputTile; ++at) {
      tile_.y[at] = joined_segments(tile_.segments + at, tile_.rows * kOutputTile, segments);
    }
    return true;
  }

  // Loops without a way out, for the compiler to make vectors of.
  bool plain() const {
    switch (tile_.weight.format) {
      case WeightFormat::kBf16:
        return plain_weights();
      case WeightFormat::kFp8:
        return !any_nan_code() && plain_scales(groups_);
      case WeightFormat::kFp4:
        return plain_scales(tile_.outputs * groups_);
    }
    return false;
  }
  bool plain_weights() const {
    uint32_t outside = 0;
    for (int64_t at = 0; at < tile_.outputs * columns_; ++at) {
      const auto magnitude = static_cast<uint16_t>(bf16_at(codes_, at) & 0x7FFF);
      const auto above = static_cast<uint16_t>(magnitude - (kPlainWeightMin << 7));
      const bool inside = above < ((kPlainWeightMax - kPlainWeightMin + 1) << 7);
      outside |= static_cast<uint32_t>(!inside & (magnitude != 0));
    }
    return outside == 0;
  }
  bool any_nan_code() const {
    uint8_t nan = 0;
    for (int64_t at = 0; at < tile_.outputs * columns_; ++at) {
      nan = static_cast<uint8_t>(nan | ((codes_[at] & 0x7F) == 0x7F ? 1 : 0));
    }
    return nan != 0;
  }
  bool plain_scales(int64_t count) const {
    int outside = 0;
    for (int64_t g = 0; g < count; ++g) {
      outside |= scales_[g] < kPlainScaleMin || scales_[g] > kPlainScaleMax;
    }
    return outside == 0;
  }
  static uint16_t bf16_at(const uint8_t* bytes, int64_t i) {
    uint16_t bits;
    __builtin_memcpy(&bits, bytes + 2 * i, 2);
    return bits;
  }

  // Output `o`, columns begin .. end of the padded row, as float32: of each 32 operands the odd
  // ones first. Values are codes times scales, exact.
  void expand(int64_t o, int64_t begin, int64_t end, float* out) const {
    const uint8_t* codes = codes_ + o * row_bytes_;
    const WeightFormat format = tile_.weight.format;
    const int64_t size = format == WeightFormat::kFp4 ? kOrderBlock : kGroup;
    const int64_t bytes = format == WeightFormat::kBf16  ? 2 * size
                          : format == WeightFormat::kFp8 ? size
                                                         : size / 2;
    for (int64_t k = begin; k < end; k += size, out += size) {
      const uint8_t* at = codes + k / size * bytes;
      uint8_t tail[64];
      if (k + size > columns_) {  // a partial block, or padding behind the last
        const int64_t count = k < columns_ ? (columns_ - k) * bytes / size : 0;
        for (int64_t i = 0; i < bytes; ++i) tail[i] = i < count ? at[i] : uint8_t{0};
        at = tail;
      }
      if (format == WeightFormat::kBf16) {
        Lanes::expand_bf16(at, out);
      } else if (format == WeightFormat::kFp8) {
        Lanes::expand_fp8(at, scale_of(0, k), out);
      } else {
        float scales[4];
        for (int64_t g = 0; g < 4; ++g) scales[g] = scale_of(o, k + g * kGroup);
        Lanes::expand_fp4(at, scales, out);
      }
    }
  }
  float scale_of(int64_t o, int64_t k) const {
    return k < columns_ ? power_of_two(scales_[o * groups_ + k / kGroup] - 127) : 0.0f;
  }

  template <int kRows>
  void dots(const uint16_t* x, int64_t row, const float* w, int64_t len, float* out) const {
    Lanes sums[kRows][2];
    for (auto& pair : sums) pair[0] = pair[1] = Lanes::zero();
    const uint16_t* rows = x + row * tile_.x_stride;
    for (int64_t k = 0; k < len; k += kGroup) {
      for (int part = 0; part < 2; ++part) {
        const int64_t at = k + part * kLanes;
        const Lanes w0 = Lanes::load(w + at), w1 = Lanes::load(w + kSegment + at);
        for (int r = 0; r < kRows; ++r) {
          const Lanes operand = part == 0 ? Lanes::odd_bf16(rows + r * tile_.x_stride + k)
                                          : Lanes::even_bf16(rows + r * tile_.x_stride + k);
          sums[r][0].add_product(operand, w0);
          sums[r][1].add_product(operand, w1);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < 2; ++i) {
        float lanes[kLanes];
        sums[r][i].store(lanes);
        out[(row + r) * kOutputTile + i] = joined(lanes);
      }
    }
  }

  const LinearTile& tile_;
  int64_t columns_, len_;
  int64_t row_bytes_ = 0, groups_ = 0;
  const uint8_t* codes_ = nullptr;
  const uint8_t* scales_ = nullptr;
};

}  // namespace
}  // namespace yeoul::cpu
