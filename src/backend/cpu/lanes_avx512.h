#pragma once

// What the AVX-512 kernels share: lane steps and joins of the written order, BF16, codes to BF16.
// Only for files compiled with their flags.

#include <immintrin.h>

#include "backend/cpu/kernels_avx512.h"

namespace yeoul::cpu::avx512 {
namespace {

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

inline bool plain_scales(const uint8_t* scales, int64_t count) {
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

inline __m512 from_bf16(__m256i words) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

// The BF16 next to x in the upper half of each word, the lower half undefined: round to nearest,
// ties to even; a NaN keeps its upper half, made quiet.
inline __m512i bf16_in_upper_half(__m512 x) {
  const __m512i u = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7FFF)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(sum, nan, u, _mm512_set1_epi32(0x400000));
}

inline __m256i to_bf16(__m512 x) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bf16_in_upper_half(x), 16));
}

inline __m512 round_bf16(__m512 x) {
  return from_bf16(to_bf16(x));
}

// backend/math_functions' exp_float.
inline __m512 exp_float(__m512 x) {
  const __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.3f), _CMP_GE_OQ);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512 t = _mm512_min_ps(x, _mm512_set1_ps(88.0f));
  const __m512 shift = _mm512_set1_ps(0x1.8p23f);
  const __m512 n =
      _mm512_sub_ps(_mm512_add_ps(_mm512_mul_ps(t, _mm512_set1_ps(0x1.715476p+0f)), shift), shift);
  __m512 r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.62e4p-1f), t);
  r = _mm512_fmadd_ps(n, _mm512_set1_ps(-0x1.7f7d1cp-20f), r);
  __m512 p = _mm512_set1_ps(1.0f / 5040);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 720));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
  const __m512i power =
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127)), 23);
  const __m512 e = _mm512_maskz_mul_ps(above, p, _mm512_castsi512_ps(power));
  return _mm512_mask_mov_ps(e, nan, x);
}

// Dots of kRows rows of x with four rows of w over one segment: out[r * out_stride + 0..3].
template <int kRows>
void dot_block(const uint16_t* x, int64_t x_stride, const uint16_t* const* w, int64_t len,
               float* out, int64_t out_stride) {
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
    join_lanes(sums[r][0], sums[r][1], sums[r][2], sums[r][3], out + r * out_stride);
  }
}

// The same for any number of rows, six at once.
inline void dot_rows(const uint16_t* x, int64_t x_stride, int64_t rows, const uint16_t* const* w,
                     int64_t len, float* out, int64_t out_stride) {
  int64_t r = 0;
  for (; r + 6 <= rows; r += 6) {
    dot_block<6>(x + r * x_stride, x_stride, w, len, out + r * out_stride, out_stride);
  }
  x += r * x_stride;
  out += r * out_stride;
  switch (rows - r) {
    case 1:
      return dot_block<1>(x, x_stride, w, len, out, out_stride);
    case 2:
      return dot_block<2>(x, x_stride, w, len, out, out_stride);
    case 3:
      return dot_block<3>(x, x_stride, w, len, out, out_stride);
    case 4:
      return dot_block<4>(x, x_stride, w, len, out, out_stride);
    case 5:
      return dot_block<5>(x, x_stride, w, len, out, out_stride);
    default:
      return;
  }
}

}  // namespace
}  // namespace yeoul::cpu::avx512
