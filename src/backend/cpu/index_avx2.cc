// Index scores of eight keys side by side: exact integer dots of bytes, keys as unsigned codes plus
// 12 (the surplus is taken off at the end), then float32 steps in the written order.

#include <immintrin.h>

#include "backend/cpu/kernels_avx2.h"

namespace yeoul::cpu::avx2 {
namespace {

constexpr int kWidth = 128, kGroups = 4, kHeadsMax = 64;
constexpr int kKeys = 8;     // side by side
constexpr int kOffset = 12;  // makes a doubled e2m1 code unsigned

// in[i]: eight dwords of key i -> out[j]: dword j of all keys.
inline void transpose(const __m256i* in, __m256i* out) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i += 2) {
    a[i] = _mm256_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm256_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    b[i] = _mm256_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm256_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm256_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // b[4q + r], 128-bit lane p: dword 4p + r of keys 4q .. 4q + 3.
  for (int r = 0; r < 4; ++r) {
    out[r] = _mm256_permute2x128_si256(b[r], b[4 + r], 0x20);
    out[4 + r] = _mm256_permute2x128_si256(b[r], b[4 + r], 0x31);
  }
}

bool plain_scales(const IndexQuery& query, const uint8_t* const* scales, int count) {
  bool outside = false;
  for (int i = 0; i < query.heads * kGroups; ++i) {
    outside |= !(query.scales[i] >= 0x1p-40f && query.scales[i] <= 0x1p8f);
  }
  for (int i = 0; i < count; ++i) {
    for (int g = 0; g < kGroups; ++g) {
      outside |= scales[i][g] < kPlainScaleMin || scales[i][g] > kPlainScaleMax;
    }
  }
  return !outside;
}

// -12 times the sum of a group's codes, for each head and group.
void surplus_of(const IndexQuery& query, int32_t* surplus) {
  for (int at = 0; at < query.heads * kGroups; ++at) {
    int32_t sum = 0;
    for (int i = 0; i < kGroup; ++i) sum += query.codes[at * kGroup + i];
    surplus[at] = -kOffset * sum;
  }
}

// Sum over one group of 32 codes for one head. A pair of products is at most 2 * 24 * 12 and eight
// of them are added: 16 bits suffice.
inline __m256i group_dots(const __m256i* keys, const int8_t* codes) {
  __m256i pairs = _mm256_setzero_si256();
  for (int j = 0; j < 8; ++j) {
    int32_t four;
    __builtin_memcpy(&four, codes + 4 * j, 4);
    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(keys[j], _mm256_set1_epi32(four)));
  }
  return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Scores of eight keys, of which all are there (a short list repeats its last one).
void score_eight(const IndexQuery& query, const uint8_t* const* codes, const uint8_t* const* scales,
                 const int32_t* surplus, float* out) {
  const __m256i table = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0,
                                         12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
  const __m256i nibble = _mm256_set1_epi8(15);
  __m256i dwords[16];
  for (int half = 0; half < 2; ++half) {
    __m256i rows[kKeys];
    for (int i = 0; i < kKeys; ++i) {
      rows[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes[i]) + half);
    }
    transpose(rows, dwords + 8 * half);
  }
  __m256 dots[kHeadsMax];
  for (int g = 0; g < kGroups; ++g) {
    __m256i keys[8];
    for (int j = 0; j < 4; ++j) {
      const __m256i d = dwords[4 * g + j];
      keys[j] = _mm256_shuffle_epi8(table, _mm256_and_si256(d, nibble));
      keys[4 + j] = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(d, 4), nibble));
    }
    alignas(32) uint32_t exponents[kKeys];
    for (int i = 0; i < kKeys; ++i) exponents[i] = static_cast<uint32_t>(scales[i][g]) << 23;
    // Codes are doubled on both sides: a quarter.
    const __m256 key_scale = _mm256_mul_ps(
        _mm256_load_ps(reinterpret_cast<const float*>(exponents)), _mm256_set1_ps(0.25f));
    for (int h = 0; h < query.heads; ++h) {
      const int at = h * kGroups + g;
      const __m256i sum = _mm256_add_epi32(group_dots(keys, query.codes + at * kGroup),
                                           _mm256_set1_epi32(surplus[at]));
      const __m256 scaled =
          _mm256_mul_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(query.scales[at]));
      dots[h] =
          g == 0 ? _mm256_mul_ps(scaled, key_scale) : _mm256_fmadd_ps(scaled, key_scale, dots[h]);
    }
  }
  __m256 total = _mm256_setzero_ps();
  for (int h = 0; h < query.heads; ++h) {
    const __m256 relu = _mm256_max_ps(dots[h], _mm256_setzero_ps());
    total = _mm256_fmadd_ps(relu, _mm256_set1_ps(query.weights[h]), total);
  }
  total = _mm256_add_ps(total, _mm256_setzero_ps());  // -0 becomes +0
  const __m256 is_nan = _mm256_cmp_ps(total, total, _CMP_UNORD_Q);
  _mm256_storeu_ps(out, _mm256_blendv_ps(total, _mm256_set1_ps(-__builtin_inff()), is_nan));
}

}  // namespace

bool score_keys(const IndexQuery& query, const uint8_t* const* codes, const uint8_t* const* scales,
                int count, float* out) {
  if (query.width != kWidth || query.heads > kHeadsMax) return false;
  if (!plain_scales(query, scales, count)) return false;
  int32_t surplus[kHeadsMax * kGroups];
  surplus_of(query, surplus);
  for (int first = 0; first < count; first += kKeys) {
    const uint8_t* key_codes[kKeys];
    const uint8_t* key_scales[kKeys];
    for (int i = 0; i < kKeys; ++i) {
      const int at = first + i < count ? first + i : count - 1;
      key_codes[i] = codes[at];
      key_scales[i] = scales[at];
    }
    float found[kKeys];
    score_eight(query, key_codes, key_scales, surplus, found);
    for (int i = 0; i < kKeys && first + i < count; ++i) out[first + i] = found[i];
  }
  return true;
}

}  // namespace yeoul::cpu::avx2
