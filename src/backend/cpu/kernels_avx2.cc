// AVX2 with FMA and F16C: two registers hold the 16 lanes.

#include <immintrin.h>

#include "backend/cpu/kernels_avx2.h"
#include "backend/cpu/linear_by_lanes.h"

namespace yeoul::cpu {
namespace {

struct Avx2Lanes {
  __m256 low, high;

  static Avx2Lanes zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Avx2Lanes load(const float* x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
  void store(float* x) const {
    _mm256_storeu_ps(x, low);
    _mm256_storeu_ps(x + 8, high);
  }
  void add_product(const Avx2Lanes& a, const Avx2Lanes& b) {
    low = _mm256_fmadd_ps(a.low, b.low, low);
    high = _mm256_fmadd_ps(a.high, b.high, high);
  }

  static __m256i words(const void* x, int half) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(x) + half);
  }
  static __m256 odd(__m256i pairs) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
  }
  static __m256 even(__m256i pairs) { return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16)); }
  static Avx2Lanes odd_bf16(const uint16_t* x) { return {odd(words(x, 0)), odd(words(x, 1))}; }
  static Avx2Lanes even_bf16(const uint16_t* x) { return {even(words(x, 0)), even(words(x, 1))}; }

  static void expand_bf16(const uint8_t* values, float* out) {
    for (int half = 0; half < 2; ++half) {
      const __m256i pairs = words(values, half);
      _mm256_storeu_ps(out + 8 * half, odd(pairs));
      _mm256_storeu_ps(out + 16 + 8 * half, even(pairs));
    }
  }

  // An e4m3 code in the upper byte of a word -> float16 of 2^-8 times its value, denormals
  // included.
  static __m256i half_float(__m256i upper) {
    const __m256i sign = _mm256_and_si256(upper, _mm256_set1_epi16(static_cast<short>(0x8000)));
    const __m256i rest = _mm256_and_si256(upper, _mm256_set1_epi16(0x7F00));
    return _mm256_or_si256(sign, _mm256_srli_epi16(rest, 1));
  }
  static void store_scaled(__m256i halves, __m256 scale, float* out) {
    const __m256 a = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
    const __m256 b = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
    _mm256_storeu_ps(out, _mm256_mul_ps(a, scale));
    _mm256_storeu_ps(out + 8, _mm256_mul_ps(b, scale));
  }
  static void expand_fp8(const uint8_t* codes, float scale, float* out) {
    const __m256 factor = _mm256_set1_ps(scale * 256.0f);
    const __m256i pairs = words(codes, 0);
    store_scaled(half_float(pairs), factor, out);
    store_scaled(half_float(_mm256_slli_epi16(pairs, 8)), factor, out + 16);
  }

  // Byte `at` of each dword, doubled e2m1 codes, as float.
  template <int kAt>
  static __m256 byte_of(__m256i codes) {
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(codes, 24 - 8 * kAt), 24));
  }
  static void expand_fp4(const uint8_t* codes, const float* scales, float* out) {
    const __m256i table = _mm256_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
                                           0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
    const __m256i nibble = _mm256_set1_epi8(15);
    for (int half = 0; half < 2; ++half) {
      const __m256i bytes = words(codes, half);
      const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(bytes, nibble));
      const __m256i high =
          _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble));
      // Lane l lies under the scale of columns 8l .. 8l+7.
      const __m256 scale = _mm256_setr_m128(_mm_set1_ps(0.5f * scales[2 * half]),
                                            _mm_set1_ps(0.5f * scales[2 * half + 1]));
      float* to = out + 8 * half;
      _mm256_storeu_ps(to, _mm256_mul_ps(byte_of<2>(low), scale));
      _mm256_storeu_ps(to + 16, _mm256_mul_ps(byte_of<0>(low), scale));
      _mm256_storeu_ps(to + 32, _mm256_mul_ps(byte_of<2>(high), scale));
      _mm256_storeu_ps(to + 48, _mm256_mul_ps(byte_of<0>(high), scale));
      _mm256_storeu_ps(to + 64, _mm256_mul_ps(byte_of<3>(low), scale));
      _mm256_storeu_ps(to + 80, _mm256_mul_ps(byte_of<1>(low), scale));
      _mm256_storeu_ps(to + 96, _mm256_mul_ps(byte_of<3>(high), scale));
      _mm256_storeu_ps(to + 112, _mm256_mul_ps(byte_of<1>(high), scale));
    }
  }
};

}  // namespace

const Kernels* avx2_kernels() {
  static const Kernels kernels{LinearByLanes<Avx2Lanes>::run, scalar_kernels().load_operand,
                               scalar_kernels().gate_up, nullptr, avx2::score_keys};
  return &kernels;
}

}  // namespace yeoul::cpu
