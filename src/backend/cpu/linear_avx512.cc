// Tiles of linear layers with vdpbf16ps, which is one lane step of the written order: odd operand
// first, fused. Codes become BF16 in registers by table look-up.
//
// One row: each output has one accumulator of 16 lanes and the weights pass through once. An FP4
// row changes its scale every 32 columns; the accumulator is rescaled by the quotient of two powers
// of two instead of scaling 32 operands (exact for plain operands, kernels.h). FP8 scales belong to
// a whole tile of 32 outputs, so the operands are scaled once a tile.
//
// Many rows: four outputs are expanded, a segment at a time, and meet the rows six at once.

#include <immintrin.h>

#include "backend/cpu/kernels_avx512.h"

namespace yeoul::cpu::avx512 {
namespace {

constexpr int kPrefetchAhead = 1024;  // bytes, per stream of weights

// BF16 of the e4m3 magnitudes, split into low and high bytes, and of the e2m1 codes twice over
// (vpermw looks at five bits, the fifth belongs to the next nibble).
struct Tables {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
  alignas(64) uint16_t nibble[32];
};

constexpr Tables make_tables() {
  Tables t{};
  for (int code = 0; code < 128; ++code) {
    const int exponent = code >> 3, mantissa = code & 7;
    int bits = 0;
    if (code == 127) {
      bits = 0x7FC0;  // NaN
    } else if (exponent != 0) {
      bits = (exponent + 120) << 7 | mantissa << 4;
    } else if (mantissa != 0) {  // mantissa * 2^-9
      const int top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;
      bits = (118 + top) << 7 | ((mantissa << (7 - top)) & 0x7F);
    }
    t.low[code] = static_cast<uint8_t>(bits & 0xFF);
    t.high[code] = static_cast<uint8_t>(bits >> 8);
  }
  constexpr int kMagnitudes[8] = {0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0};
  for (int i = 0; i < 32; ++i) {
    const int code = i & 15;
    // Code 8 is +0.
    t.nibble[i] = static_cast<uint16_t>(kMagnitudes[code & 7] | (code > 8 ? 0x8000 : 0));
  }
  return t;
}
constexpr Tables kTables = make_tables();

inline __m512bh as_bf16(__m512i v) {
  return reinterpret_cast<__m512bh>(v);
}

inline __m512 step(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, as_bf16(a), as_bf16(b));
}

// l += l+8, l += l+4 of four accumulators; the four left of each stand in a 128-bit lane.
inline __m512 join_to_four(__m512 a, __m512 b, __m512 c, __m512 d) {
  const __m512 ab =
      _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  const __m512 cd =
      _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
  return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
}

// The tree l += l+8, 4, 2, 1 for four accumulators, sums to out[0..3].
inline void join_lanes(__m512 a, __m512 b, __m512 c, __m512 d, float* out) {
  __m512 v = join_to_four(a, b, c, d);
  v = _mm512_add_ps(v, _mm512_permute_ps(v, 0x4E));
  v = _mm512_add_ps(v, _mm512_permute_ps(v, 0xB1));
  _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, v)));
}

struct Fp8Tables {
  __m512i low0, low1, high0, high1, order, sign;
};

inline Fp8Tables fp8_tables() {
  return {_mm512_load_si512(kTables.low),
          _mm512_load_si512(kTables.low + 64),
          _mm512_load_si512(kTables.high),
          _mm512_load_si512(kTables.high + 64),
          _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7),
          _mm512_set1_epi8(static_cast<char>(0x80))};
}

// 64 codes -> BF16 of columns 0..31 and 32..63.
inline void expand_fp8(const Fp8Tables& t, const uint8_t* codes, __m512i* first, __m512i* second) {
  const __m512i c = _mm512_permutexvar_epi64(t.order, _mm512_loadu_si512(codes));
  const __m512i low = _mm512_permutex2var_epi8(t.low0, c, t.low1);
  __m512i high = _mm512_permutex2var_epi8(t.high0, c, t.high1);
  high = _mm512_ternarylogic_epi64(high, c, t.sign, 0xF8);  // high | (c & sign)
  *first = _mm512_unpacklo_epi8(low, high);
  *second = _mm512_unpackhi_epi8(low, high);
}

// BF16 values times a power of two given as a shifted exponent difference; zeros stay.
inline __m512i scale_words(__m512i words, __m512i shift) {
  const __mmask32 nonzero = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7FFF));
  return _mm512_mask_add_epi16(words, nonzero, words, shift);
}

inline __m512i exponent_shift(uint8_t scale) {
  return _mm512_set1_epi16(static_cast<short>((static_cast<int>(scale) - 127) * 128));
}

bool plain_scales(const uint8_t* scales, int64_t count) {
  const __m512i low = _mm512_set1_epi8(static_cast<char>(kPlainScaleMin));
  const __m512i width = _mm512_set1_epi8(kPlainScaleMax - kPlainScaleMin);
  __mmask64 outside = 0;
  for (int64_t i = 0; i < count; i += 64) {
    const __mmask64 valid = count - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (count - i)) - 1;
    const __m512i s = _mm512_maskz_loadu_epi8(valid, scales + i);
    outside |= _mm512_mask_cmpgt_epu8_mask(valid, _mm512_sub_epi8(s, low), width);
  }
  return outside == 0;
}

inline int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// A weight as the loops below see it.
struct Source {
  const uint8_t* codes;  // of the first output at hand
  const uint8_t* scales;
  int64_t row_bytes;
  int64_t scale_bytes;  // from one output's scales to the next
  int64_t columns;
};

Source source_of(const LinearTile& tile) {
  const Weight& w = tile.weight;
  const auto* codes = reinterpret_cast<const uint8_t*>(w.data);
  if (w.format == WeightFormat::kFp4) {
    return {codes + tile.first * w.cols / 2, w.scales + tile.first * (w.cols / kGroup), w.cols / 2,
            w.cols / kGroup, w.cols};
  }
  if (w.format == WeightFormat::kFp8) {
    return {codes + tile.first * w.cols, w.scales + tile.first / 32 * (w.cols / kGroup), w.cols, 0,
            w.cols};
  }
  return {codes + tile.first * w.cols * 2, nullptr, w.cols * 2, 0, w.cols};
}

// ---- one row ----------------------------------------------------------------------------------

// Sums of one segment of kOutputs outputs, lanes joined.
template <int kOutputs>
inline void store_joined(const __m512* sums, float* out) {
  static_assert(kOutputs % 4 == 0);
  for (int o = 0; o < kOutputs; o += 4) {
    join_lanes(sums[o], sums[o + 1], sums[o + 2], sums[o + 3], out + o);
  }
}

template <int kOutputs>
inline void bf16_row(const uint8_t* const* rows, const uint16_t* x, int64_t begin, int64_t end,
                     float* out) {
  __m512 sums[kOutputs];
  for (int o = 0; o < kOutputs; ++o) sums[o] = _mm512_setzero_ps();
  for (int64_t k = begin; k < end; k += 32) {
    const __m512i operand = _mm512_loadu_si512(x + k);
    for (int o = 0; o < kOutputs; ++o) {
      _mm_prefetch(reinterpret_cast<const char*>(rows[o] + 2 * k + kPrefetchAhead), _MM_HINT_T0);
      sums[o] = step(sums[o], operand, _mm512_loadu_si512(rows[o] + 2 * k));
    }
  }
  store_joined<kOutputs>(sums, out);
}

// x already holds the tile's scales.
template <int kOutputs>
inline void fp8_row(const uint8_t* const* rows, const uint16_t* x, int64_t begin, int64_t end,
                    float* out) {
  const Fp8Tables tables = fp8_tables();
  __m512 sums[kOutputs];
  for (int o = 0; o < kOutputs; ++o) sums[o] = _mm512_setzero_ps();
  for (int64_t k = begin; k < end; k += 64) {
    const __m512i x0 = _mm512_loadu_si512(x + k), x1 = _mm512_loadu_si512(x + k + 32);
    for (int o = 0; o < kOutputs; ++o) {
      _mm_prefetch(reinterpret_cast<const char*>(rows[o] + k + kPrefetchAhead), _MM_HINT_T0);
      __m512i w0, w1;
      expand_fp8(tables, rows[o] + k, &w0, &w1);
      sums[o] = step(step(sums[o], x0, w0), x1, w1);
    }
  }
  store_joined<kOutputs>(sums, out);
}

// Exponents of the quotients scale[g - 4] / scale[g] of one segment, a byte each; the first four
// are one. Four groups of a block lie in the four 128-bit lanes of an accumulator.
inline void scale_quotients(const uint8_t* scales, int64_t groups, uint8_t* out) {
  const __mmask64 valid = groups >= 64 ? ~__mmask64{0} : (__mmask64{1} << groups) - 1;
  const __m512i now = _mm512_maskz_loadu_epi8(valid, scales);
  const __m512i before = _mm512_maskz_loadu_epi8(valid & ~__mmask64{0xF}, scales - 4);
  const __m512i one = _mm512_set1_epi8(127);
  const __m512i quotient = _mm512_add_epi8(_mm512_sub_epi8(before, now), one);
  _mm512_storeu_si512(out, _mm512_mask_mov_epi8(quotient, 0xF, one));
}

// Four bytes -> powers of two, byte g in 128-bit lane g.
inline __m512 spread_scales(const uint8_t* bytes, __m512i control) {
  int32_t four;
  __builtin_memcpy(&four, bytes, 4);
  const __m512i top = _mm512_shuffle_epi8(_mm512_set1_epi32(four), control);
  return _mm512_castsi512_ps(_mm512_srli_epi32(top, 1));
}

inline __m512i spread_control() {
  const auto lane = [](int g) {
    return _mm_set1_epi32(static_cast<int>((static_cast<uint32_t>(g) << 24) | 0x808080u));
  };
  __m512i c = _mm512_castsi128_si512(lane(0));
  c = _mm512_inserti32x4(c, lane(1), 1);
  c = _mm512_inserti32x4(c, lane(2), 2);
  return _mm512_inserti32x4(c, lane(3), 3);
}

template <int kOutputs>
inline void fp4_row(const uint8_t* const* rows, const uint8_t* const* scales, const uint16_t* x,
                    int64_t begin, int64_t end, float* out) {
  const __m512i table = _mm512_load_si512(kTables.nibble);
  const __m512i control = spread_control();
  alignas(64) uint8_t quotients[kOutputs][64];
  __m512 sums[kOutputs];
  for (int o = 0; o < kOutputs; ++o) {
    scale_quotients(scales[o] + begin / kGroup, (end - begin) / kGroup, quotients[o]);
    sums[o] = _mm512_setzero_ps();
  }
  for (int64_t k = begin; k < end; k += kOrderBlock) {
    const __m512i x0 = _mm512_loadu_si512(x + k), x1 = _mm512_loadu_si512(x + k + 32);
    const __m512i x2 = _mm512_loadu_si512(x + k + 64), x3 = _mm512_loadu_si512(x + k + 96);
    for (int o = 0; o < kOutputs; ++o) {
      _mm_prefetch(reinterpret_cast<const char*>(rows[o] + k / 2 + kPrefetchAhead), _MM_HINT_T0);
      const __m512i codes = _mm512_loadu_si512(rows[o] + k / 2);
      __m512 s =
          _mm512_mul_ps(sums[o], spread_scales(quotients[o] + (k - begin) / kGroup, control));
      s = step(s, x0, _mm512_permutexvar_epi16(codes, table));
      s = step(s, x1, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table));
      s = step(s, x2, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table));
      sums[o] = step(s, x3, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table));
    }
  }
  for (int o = 0; o < kOutputs; ++o) {
    sums[o] = _mm512_mul_ps(sums[o], spread_scales(scales[o] + end / kGroup - 4, control));
  }
  store_joined<kOutputs>(sums, out);
}

// The row's operands times the scales of this tile of FP8 weights.
const uint16_t* scaled_operands(const LinearTile& tile, const Source& source, uint16_t* out) {
  for (int64_t k = 0; k < source.columns; k += kGroup) {
    const __m512i words = _mm512_loadu_si512(tile.x + k);
    _mm512_storeu_si512(out + k, scale_words(words, exponent_shift(source.scales[k / kGroup])));
  }
  return out;
}

// segments[s][output] of one row. Outputs behind the last repeat it.
void one_row(const LinearTile& tile, const Source& source) {
  constexpr int kAtOnce = 8;
  const uint16_t* x = tile.x;
  if (tile.weight.format == WeightFormat::kFp8) {
    x = scaled_operands(tile, source, reinterpret_cast<uint16_t*>(tile.expanded));
  }
  for (int64_t o = 0; o < tile.outputs; o += kAtOnce) {
    const uint8_t* rows[kAtOnce];
    const uint8_t* scales[kAtOnce];
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t at = smaller(o + i, tile.outputs - 1);
      rows[i] = source.codes + at * source.row_bytes;
      scales[i] = source.scales + at * source.scale_bytes;
    }
    float* out = tile.segments + o;
    for (int64_t begin = 0; begin < source.columns; begin += kSegment, out += kOutputTile) {
      const int64_t end = smaller(begin + kSegment, source.columns);
      switch (tile.weight.format) {
        case WeightFormat::kBf16:
          bf16_row<kAtOnce>(rows, x, begin, end, out);
          break;
        case WeightFormat::kFp8:
          fp8_row<4>(rows, x, begin, end, out);
          fp8_row<4>(rows + 4, x, begin, end, out + 4);
          break;
        case WeightFormat::kFp4:
          fp4_row<kAtOnce>(rows, scales, x, begin, end, out);
          break;
      }
    }
  }
}

// ---- many rows --------------------------------------------------------------------------------

// One row of weights of one segment as BF16 with its scales, in operand order.
void expand_row(const LinearTile& tile, const Source& source, int64_t output, int64_t begin,
                int64_t end, uint16_t* out) {
  const uint8_t* codes = source.codes + output * source.row_bytes;
  const uint8_t* scales = source.scales + output * source.scale_bytes;
  if (tile.weight.format == WeightFormat::kFp8) {
    const Fp8Tables tables = fp8_tables();
    for (int64_t k = begin; k < end; k += 64) {
      __m512i w0, w1;
      expand_fp8(tables, codes + k, &w0, &w1);
      const uint8_t* scale = scales + k / kGroup;
      _mm512_store_si512(out + k - begin, scale_words(w0, exponent_shift(scale[0])));
      _mm512_store_si512(out + k - begin + 32, scale_words(w1, exponent_shift(scale[1])));
    }
    return;
  }
  const __m512i table = _mm512_load_si512(kTables.nibble);
  const __m512i control = spread_control();
  for (int64_t k = begin; k < end; k += kOrderBlock) {
    // A power of two as float32 holds its exponent where two BF16 words want it.
    const __m512i scale = _mm512_castps_si512(spread_scales(scales + k / kGroup, control));
    const __m512i both = _mm512_or_si512(scale, _mm512_srli_epi32(scale, 16));
    const __m512i shift = _mm512_sub_epi16(both, _mm512_set1_epi16(127 * 128));
    const __m512i c = _mm512_loadu_si512(codes + k / 2);
    uint16_t* to = out + k - begin;
    _mm512_store_si512(to, scale_words(_mm512_permutexvar_epi16(c, table), shift));
    _mm512_store_si512(
        to + 32, scale_words(_mm512_permutexvar_epi16(_mm512_srli_epi16(c, 4), table), shift));
    _mm512_store_si512(
        to + 64, scale_words(_mm512_permutexvar_epi16(_mm512_srli_epi16(c, 8), table), shift));
    _mm512_store_si512(
        to + 96, scale_words(_mm512_permutexvar_epi16(_mm512_srli_epi16(c, 12), table), shift));
  }
}

// kRows rows against four outputs over one segment: out[r * kOutputTile + 0..3].
template <int kRows>
void block(const uint16_t* x, int64_t x_stride, const uint16_t* const* w, int64_t len, float* out) {
  __m512 sums[kRows][4];
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < 4; ++o) sums[r][o] = _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < len; k += 32) {
    const __m512i w0 = _mm512_loadu_si512(w[0] + k), w1 = _mm512_loadu_si512(w[1] + k);
    const __m512i w2 = _mm512_loadu_si512(w[2] + k), w3 = _mm512_loadu_si512(w[3] + k);
    for (int r = 0; r < kRows; ++r) {
      const __m512i operand = _mm512_loadu_si512(x + r * x_stride + k);
      sums[r][0] = step(sums[r][0], operand, w0);
      sums[r][1] = step(sums[r][1], operand, w1);
      sums[r][2] = step(sums[r][2], operand, w2);
      sums[r][3] = step(sums[r][3], operand, w3);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    join_lanes(sums[r][0], sums[r][1], sums[r][2], sums[r][3], out + r * kOutputTile);
  }
}

void rows_against(const LinearTile& tile, const uint16_t* const* w, int64_t begin, int64_t end,
                  float* out) {
  const uint16_t* x = tile.x + begin;
  const int64_t stride = tile.x_stride, len = end - begin;
  int64_t r = 0;
  for (; r + 6 <= tile.rows; r += 6)
    block<6>(x + r * stride, stride, w, len, out + r * kOutputTile);
  x += r * stride;
  out += r * kOutputTile;
  switch (tile.rows - r) {
    case 1:
      block<1>(x, stride, w, len, out);
      break;
    case 2:
      block<2>(x, stride, w, len, out);
      break;
    case 3:
      block<3>(x, stride, w, len, out);
      break;
    case 4:
      block<4>(x, stride, w, len, out);
      break;
    case 5:
      block<5>(x, stride, w, len, out);
      break;
    default:
      break;
  }
}

void many_rows(const LinearTile& tile, const Source& source) {
  auto* expanded = reinterpret_cast<uint16_t*>(tile.expanded);
  float* out = tile.segments;
  for (int64_t begin = 0; begin < source.columns; begin += kSegment) {
    const int64_t end = smaller(begin + kSegment, source.columns);
    for (int64_t o = 0; o < tile.outputs; o += 4) {
      const uint16_t* w[4];
      for (int i = 0; i < 4; ++i) {
        const int64_t at = smaller(o + i, tile.outputs - 1);
        if (tile.weight.format == WeightFormat::kBf16) {
          w[i] = reinterpret_cast<const uint16_t*>(source.codes + at * source.row_bytes) + begin;
          continue;
        }
        expand_row(tile, source, at, begin, end, expanded + i * kSegment);
        w[i] = expanded + i * kSegment;
      }
      rows_against(tile, w, begin, end, out + o);
    }
    out += tile.rows * kOutputTile;
  }
}

// Segments in pairs, again and again; an odd one moves up.
void join_segments(const LinearTile& tile, int64_t count) {
  const int64_t size = tile.rows * kOutputTile;
  while (count > 1) {
    const int64_t pairs = count / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      const float* from = tile.segments + 2 * i * size;
      float* to = tile.segments + i * size;
      for (int64_t at = 0; at < size; at += 16) {
        _mm512_storeu_ps(
            to + at, _mm512_add_ps(_mm512_loadu_ps(from + at), _mm512_loadu_ps(from + size + at)));
      }
    }
    if (count % 2 != 0) {
      __builtin_memmove(tile.segments + pairs * size, tile.segments + (count - 1) * size,
                        static_cast<size_t>(size) * sizeof(float));
    }
    count = pairs + count % 2;
  }
  __builtin_memcpy(tile.y, tile.segments, static_cast<size_t>(size) * sizeof(float));
}

}  // namespace

bool linear(const LinearTile& tile) {
  const Source source = source_of(tile);
  const int64_t columns = source.columns;
  switch (tile.weight.format) {
    case WeightFormat::kBf16:
      if (columns % 32 != 0) return false;
      break;
    case WeightFormat::kFp8:
      if (columns % 64 != 0 || !plain_scales(source.scales, columns / kGroup)) return false;
      break;
    case WeightFormat::kFp4:
      if (columns % kOrderBlock != 0) return false;
      if (!plain_scales(source.scales, tile.outputs * source.scale_bytes)) return false;
      break;
  }
  if (tile.rows == 1) {
    one_row(tile, source);
  } else {
    many_rows(tile, source);
  }
  join_segments(tile, (columns + kSegment - 1) / kSegment);
  return true;
}

}  // namespace yeoul::cpu::avx512
