#include "backend/cpu/sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backend/cpu/instruction_sets.h"
#include "base/check.h"
#include "tensor/formats/fp8_e4m3.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul::cpu {
namespace {

// A denormal becomes a zero of its sign, as vdpbf16ps does with operands and results.
[[gnu::always_inline]] inline float flush(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((u & 0x7F800000u) == 0 ? u & 0x80000000u : u);
}

template <typename Acc>
[[gnu::always_inline]] inline Acc lane_step(float a, float b, Acc acc) {
  if constexpr (sizeof(Acc) == sizeof(float)) {
    return flush(std::fma(a, b, acc));
  } else {
    return acc + static_cast<double>(a) * static_cast<double>(b);  // the product is exact
  }
}

template <typename Acc>
[[gnu::always_inline]] inline Acc join_lanes(Acc* lanes) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  }
  return lanes[0];
}

// Pairs of segments, again and again; an odd one moves up.
template <typename Acc>
[[gnu::always_inline]] inline Acc join_segments(Acc* sums, int64_t count) {
  while (count > 1) {
    const int64_t pairs = count / 2;
    for (int64_t i = 0; i < pairs; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
    if (count % 2 != 0) sums[pairs] = sums[count - 1];
    count = pairs + count % 2;
  }
  return sums[0];
}

// kOutputs dots at once: their chains do not depend on each other, which hides the fma latency.
template <typename Acc, int kOutputs>
[[gnu::always_inline]] inline void dot_block(const float* x, const float* w, int64_t w_stride,
                                             int64_t k, Acc* out) {
  Acc segment_sums[kOutputs][kMaxSegments];
  int64_t segment = 0;
  for (int64_t start = 0; start < k; start += kSegment, ++segment) {
    const int64_t end = std::min(start + kSegment, k);
    Acc lanes[kOutputs][kLanes] = {};
    for (int64_t i = start; i < end; i += kLanes) {  // odd elements and even ones alternate
      for (int o = 0; o < kOutputs; ++o) {
        const float* weights = w + o * w_stride + i;
        for (int64_t l = 0; l < kLanes; ++l) {
          lanes[o][l] = lane_step(x[i + l], weights[l], lanes[o][l]);
        }
      }
    }
    for (int o = 0; o < kOutputs; ++o) segment_sums[o][segment] = join_lanes(lanes[o]);
  }
  for (int o = 0; o < kOutputs; ++o) {
    out[o] = segment == 0 ? Acc{0} : join_segments(segment_sums[o], segment);
  }
}

template <typename Acc>
[[gnu::always_inline]] inline void dots_loop(const float* x, const float* w, int64_t w_stride,
                                             int64_t k, int64_t count, Acc* out) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) dot_block<Acc, 4>(x, w + j * w_stride, w_stride, k, out + j);
  for (; j < count; ++j) dot_block<Acc, 1>(x, w + j * w_stride, w_stride, k, out + j);
}

template <typename Acc>
[[gnu::always_inline]] inline Acc wide_step(float a, float b, Acc acc) {
  if constexpr (sizeof(Acc) == sizeof(float)) {
    return std::fma(a, b, acc);
  } else {
    return acc + static_cast<double>(a) * static_cast<double>(b);
  }
}

// kRows times kOutputs dots at once: independent chains, and each w is read once for all rows.
template <typename Acc, int kRows, int kOutputs>
[[gnu::always_inline]] inline void wide_block(const float* x, int64_t x_stride, const float* w,
                                              int64_t w_stride, int64_t k, Acc* out,
                                              int64_t out_stride) {
  Acc segment_sums[kRows * kOutputs][kMaxSegments];
  int64_t segment = 0;
  for (int64_t start = 0; start < k; start += kSegment, ++segment) {
    const int64_t end = std::min(start + kSegment, k);
    Acc lanes[kRows * kOutputs][kLanes] = {};
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes) {
      for (int d = 0; d < kRows * kOutputs; ++d) {
        const float* a = x + d / kOutputs * x_stride + i;
        const float* b = w + d % kOutputs * w_stride + i;
        for (int64_t l = 0; l < kLanes; ++l) lanes[d][l] = wide_step(a[l], b[l], lanes[d][l]);
      }
    }
    for (int d = 0; d < kRows * kOutputs; ++d) {
      const float* a = x + d / kOutputs * x_stride + i;
      const float* b = w + d % kOutputs * w_stride + i;
      // The padding with +0 changes nothing.
      for (int64_t l = 0; i + l < end; ++l) lanes[d][l] = wide_step(a[l], b[l], lanes[d][l]);
      segment_sums[d][segment] = join_lanes(lanes[d]);
    }
  }
  for (int d = 0; d < kRows * kOutputs; ++d) {
    out[d / kOutputs * out_stride + d % kOutputs] =
        segment == 0 ? Acc{0} : join_segments(segment_sums[d], segment);
  }
}

template <typename Acc, int kRows>
[[gnu::always_inline]] inline void wide_rows(const float* x, int64_t x_stride, const float* w,
                                             int64_t w_stride, int64_t count, int64_t k, Acc* out,
                                             int64_t out_stride) {
  int64_t o = 0;
  for (; o + 4 <= count; o += 4) {
    wide_block<Acc, kRows, 4>(x, x_stride, w + o * w_stride, w_stride, k, out + o, out_stride);
  }
  for (; o < count; ++o) {
    wide_block<Acc, kRows, 1>(x, x_stride, w + o * w_stride, w_stride, k, out + o, out_stride);
  }
}

template <typename Acc>
[[gnu::always_inline]] inline void wide_loop(const float* x, int64_t x_stride, int64_t rows,
                                             const float* w, int64_t w_stride, int64_t count,
                                             int64_t k, Acc* out, int64_t out_stride) {
  if (rows == 2) return wide_rows<Acc, 2>(x, x_stride, w, w_stride, count, k, out, out_stride);
  for (int64_t r = 0; r < rows; ++r) {
    wide_rows<Acc, 1>(x + r * x_stride, 0, w, w_stride, count, k, out + r * out_stride, 0);
  }
}

template <typename Acc>
[[gnu::always_inline]] inline void add_value(float p, const float* key, int64_t width, Acc* sum) {
  for (int64_t d = 0; d < width; ++d) {
    if constexpr (sizeof(Acc) == sizeof(float)) {
      sum[d] = std::fma(p, key[d], sum[d]);
    } else {
      sum[d] += static_cast<double>(p) * static_cast<double>(key[d]);
    }
  }
}

template <typename Acc>
[[gnu::always_inline]] inline void add_values_loop(const float* p, const float* const* keys,
                                                   int num_slots, int64_t width, Acc* sum) {
  for (int slot = 0; slot < num_slots; slot += 2) {
    if (slot + 1 < num_slots && keys[slot + 1] != nullptr) {
      add_value(p[slot + 1], keys[slot + 1], width, sum);
    }
    if (keys[slot] != nullptr) add_value(p[slot], keys[slot], width, sum);
  }
}

void expand_bf16(const Weight& weight, int64_t row, float* out) {
  const auto* values = reinterpret_cast<const Bf16*>(weight.data) + row * weight.cols;
  to_lane_order(values, weight.cols, out);
}

YEOUL_CLONES void expand_fp8(const uint8_t* codes, const uint8_t* scales, int64_t cols,
                             float* out) {
  for (int64_t g = 0; g < cols; g += kGroup) {
    const float scale = ue8m0_to_float(scales[g / kGroup]);
    const int64_t n = std::min(kGroup, cols - g);
    float values[kGroup] = {};
    for (int64_t i = 0; i < n; ++i) values[i] = flush(e4m3_to_float(codes[g + i]) * scale);
    for (int64_t l = 0; l < kLanes; ++l) {
      out[g + l] = values[2 * l + 1];
      out[g + kLanes + l] = values[2 * l];
    }
  }
}

// The value of the e2m1 code in the low nibble, in steps that a vector loop can do.
[[gnu::always_inline]] inline float e2m1_value(uint32_t nibble) {
  const uint32_t magnitude = (nibble & 7) << 22;  // exponent and mantissa at their places
  const float normal = std::bit_cast<float>(magnitude + (126u << 23));
  const float denormal = std::bit_cast<float>(magnitude + (127u << 23)) - 1.0f;  // 0 or 0.5
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude < 2u << 22 ? denormal : normal);
  return std::bit_cast<float>(bits | (nibble & 8) << 28) + 0.0f;  // code 8 is +0
}

// Of each block of 128 columns position 32n + w holds column 4w + n (nibble n of word w); so lane l
// takes columns 8l + 4 + n and 8l + n, which lie in bytes 4l .. 4l + 3.
YEOUL_CLONES void expand_fp4(const uint8_t* codes, const uint8_t* scales, int64_t cols,
                             float* __restrict out) {
  for (int64_t block = 0; block < cols; block += kOrderBlock) {
    uint8_t bytes[kOrderBlock / 2] = {};
    float scale[kLanes] = {};
    const int64_t count = std::min(kOrderBlock, cols - block);
    for (int64_t i = 0; i < count / 2; ++i) bytes[i] = codes[block / 2 + i];
    for (int64_t l = 0; l < count / 8; ++l) {
      scale[l] = ue8m0_to_float(scales[(block + 8 * l) / kGroup]);
    }
    for (int n = 0; n < 4; ++n) {
      const int shift = n % 2 * 4;
      float* group = out + block + kGroup * n;
      for (int64_t l = 0; l < kLanes; ++l) {
        const uint32_t odd = bytes[4 * l + 2 + n / 2], even = bytes[4 * l + n / 2];
        group[l] = flush(e2m1_value(odd >> shift) * scale[l]);
        group[kLanes + l] = flush(e2m1_value(even >> shift) * scale[l]);
      }
    }
  }
}

template <typename Value>
void lane_order(const Value* x, int64_t n, float* out) {
  const auto value = [x](int64_t i) {
    if constexpr (sizeof(Value) == sizeof(Bf16)) {
      return flush(to_float(x[i]));
    } else {
      return flush(x[i]);
    }
  };
  const int64_t whole = n / kGroup * kGroup;
  for (int64_t g = 0; g < whole; g += kGroup) {
    for (int64_t l = 0; l < kLanes; ++l) {
      out[g + l] = value(g + 2 * l + 1);
      out[g + kLanes + l] = value(g + 2 * l);
    }
  }
  if (whole == n) return;
  std::memset(out + whole, 0, kGroup * sizeof(float));
  for (int64_t i = whole; i < n; ++i) {
    out[whole + (i % 2 != 0 ? 0 : kLanes) + (i - whole) / 2] = value(i);
  }
}

}  // namespace

void to_lane_order(const Bf16* x, int64_t n, float* out) {
  lane_order(x, n, out);
}
void to_lane_order(const float* x, int64_t n, float* out) {
  lane_order(x, n, out);
}

void from_lane_order(const float* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t g = i / kGroup * kGroup;
    out[i] = x[g + (i % 2 != 0 ? 0 : kLanes) + (i - g) / 2];
  }
}

void expand_row(const Weight& weight, int64_t row, float* out) {
  DCHECK(row >= 0 && row < weight.rows);
  const int64_t whole = padded(weight.cols);
  std::fill(out + whole, out + operand_len(weight.cols), 0.0f);
  const auto* bytes = reinterpret_cast<const uint8_t*>(weight.data);
  switch (weight.format) {
    case WeightFormat::kBf16:
      expand_bf16(weight, row, out);
      return;
    case WeightFormat::kFp8:
      expand_fp8(bytes + row * weight.cols, weight.scales + row / 32 * ((weight.cols + 31) / 32),
                 weight.cols, out);
      return;
    case WeightFormat::kFp4:
      expand_fp4(bytes + row * weight.cols / 2, weight.scales + row * (weight.cols / 32),
                 weight.cols, out);
      return;
  }
}

YEOUL_CLONES void dots(const float* x, const float* w, int64_t w_stride, int64_t k, int64_t count,
                       float* out) {
  dots_loop(x, w, w_stride, k, count, out);
}
YEOUL_CLONES void dots(const float* x, const float* w, int64_t w_stride, int64_t k, int64_t count,
                       double* out) {
  dots_loop(x, w, w_stride, k, count, out);
}

YEOUL_CLONES void dot_wide(const float* a, const float* b, int64_t k, float* out) {
  wide_block<float, 1, 1>(a, 0, b, 0, k, out, 0);
}
YEOUL_CLONES void dot_wide(const float* a, const float* b, int64_t k, double* out) {
  wide_block<double, 1, 1>(a, 0, b, 0, k, out, 0);
}

YEOUL_CLONES void dots_wide(const float* x, int64_t x_stride, int64_t rows, const float* w,
                            int64_t w_stride, int64_t count, int64_t k, float* out,
                            int64_t out_stride) {
  wide_loop(x, x_stride, rows, w, w_stride, count, k, out, out_stride);
}
YEOUL_CLONES void dots_wide(const float* x, int64_t x_stride, int64_t rows, const float* w,
                            int64_t w_stride, int64_t count, int64_t k, double* out,
                            int64_t out_stride) {
  wide_loop(x, x_stride, rows, w, w_stride, count, k, out, out_stride);
}

YEOUL_CLONES void add_values(const float* p, const float* const* keys, int num_slots, int64_t width,
                             float* sum) {
  add_values_loop(p, keys, num_slots, width, sum);
}
YEOUL_CLONES void add_values(const float* p, const float* const* keys, int num_slots, int64_t width,
                             double* sum) {
  add_values_loop(p, keys, num_slots, width, sum);
}

namespace {

template <typename Acc>
void sum_tile_loop(const LinearTile& tile, Acc* y) {
  const int64_t k = operand_len(tile.weight.cols);
  for (int64_t o = 0; o < tile.outputs; ++o) {
    expand_row(tile.weight, tile.first + o, tile.expanded + o * k);
  }
  float* x = tile.expanded + kOutputTile * k;
  for (int64_t r = 0; r < tile.rows; ++r) {
    to_lane_order(reinterpret_cast<const Bf16*>(tile.x) + r * tile.x_stride, k, x);
    dots(x, tile.expanded, k, k, tile.outputs, y + r * kOutputTile);
  }
}

}  // namespace

void sum_tile(const LinearTile& tile, float* y) {
  sum_tile_loop(tile, y);
}
void sum_tile(const LinearTile& tile, double* y) {
  sum_tile_loop(tile, y);
}

}  // namespace yeoul::cpu
