// Index scores of 16 keys side by side: exact integer dots with vpdpbusd, keys as unsigned codes
// plus 12 (the surplus is taken off at the start), then float32 steps in the written order.

#include "backend/cpu/lanes_avx512.h"
#include "tensor/formats/fp4_e2m1.h"

namespace yeoul::cpu::avx512 {
namespace {

constexpr int kWidth = 128, kGroups = 4, kHeadsMax = 64;
constexpr int kOffset = 12;  // makes a doubled e2m1 code unsigned

// 16 keys of 16 dwords -> dword j of all keys in out[j].
inline void transpose(const __m512i* in, __m512i* out) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_epi32(in[i], in[i + 1]);
    a[i + 1] = _mm512_unpackhi_epi32(in[i], in[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  // b[4q + r], 128-bit lane p: dword 4p + r of keys 4q .. 4q + 3.
  for (int r = 0; r < 4; ++r) {
    const __m512i even0 = _mm512_shuffle_i32x4(b[r], b[4 + r], 0x88);
    const __m512i odd0 = _mm512_shuffle_i32x4(b[r], b[4 + r], 0xDD);
    const __m512i even1 = _mm512_shuffle_i32x4(b[8 + r], b[12 + r], 0x88);
    const __m512i odd1 = _mm512_shuffle_i32x4(b[8 + r], b[12 + r], 0xDD);
    out[r] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    out[8 + r] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
    out[4 + r] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    out[12 + r] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
  }
}

bool plain_float_scales(const float* scales, int64_t count) {
  __mmask16 outside = 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 valid =
        static_cast<__mmask16>(count - i >= 16 ? 0xFFFF : (1 << (count - i)) - 1);
    const __m512 s = _mm512_maskz_loadu_ps(valid, scales + i);
    outside |= _mm512_mask_cmp_ps_mask(valid, s, _mm512_set1_ps(0x1p-40f), _CMP_NGE_UQ);
    outside |= _mm512_mask_cmp_ps_mask(valid, s, _mm512_set1_ps(0x1p8f), _CMP_NLE_UQ);
  }
  return outside == 0;
}

// dots[h] += sum of group g * its scales, for kHeads heads.
template <int kHeads>
inline void add_group(const IndexQuery& query, int head, int g, const __m512i* keys,
                      __m512 key_scale, const int32_t* surplus, __m512* dots) {
  __m512i sums[kHeads];
  for (int h = 0; h < kHeads; ++h) {
    sums[h] = _mm512_set1_epi32(surplus[(head + h) * kGroups + g]);
  }
  for (int j = 0; j < 8; ++j) {
    for (int h = 0; h < kHeads; ++h) {
      int32_t four;
      __builtin_memcpy(&four, query.codes + (head + h) * kWidth + g * 32 + 4 * j, 4);
      sums[h] = _mm512_dpbusd_epi32(sums[h], keys[j], _mm512_set1_epi32(four));
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[h]),
                                        _mm512_set1_ps(query.scales[(head + h) * kGroups + g]));
    dots[head + h] = g == 0 ? _mm512_mul_ps(scaled, key_scale)
                            : _mm512_fmadd_ps(scaled, key_scale, dots[head + h]);
  }
}

}  // namespace

bool score_keys(const IndexQuery& query, const uint8_t* const* codes, const uint8_t* const* scales,
                int count, float* out) {
  if (query.width != kWidth || query.heads > kHeadsMax || query.heads % 4 != 0) return false;
  if (!plain_float_scales(query.scales, int64_t{query.heads} * kGroups)) return false;
  __m512i rows[16], dwords[16];
  alignas(64) uint32_t scale_bytes[16];
  for (int i = 0; i < 16; ++i) {
    const int at = i < count ? i : count - 1;
    rows[i] = _mm512_loadu_si512(codes[at]);
    __builtin_memcpy(&scale_bytes[i], scales[at], 4);
  }
  if (!plain_scales(reinterpret_cast<const uint8_t*>(scale_bytes), 64)) return false;
  transpose(rows, dwords);
  int32_t surplus[kHeadsMax * kGroups];
  for (int at = 0; at < query.heads * kGroups; ++at) {
    const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query.codes + at * 32));
    const __m256i sums = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(kOffset), c);
    const __m128i half =
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    const __m128i pair = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    surplus[at] = -(_mm_cvtsi128_si32(pair) + _mm_extract_epi32(pair, 1));
  }
  const __m512i table = _mm512_add_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(
                                            reinterpret_cast<const __m128i*>(kE2m1Doubled.data()))),
                                        _mm512_set1_epi8(kOffset));
  const __m512i nibble = _mm512_set1_epi8(15);
  const __m512i all_scales = _mm512_load_si512(scale_bytes);
  __m512 dots[kHeadsMax];
  for (int g = 0; g < kGroups; ++g) {
    __m512i keys[8];
    for (int j = 0; j < 4; ++j) {
      const __m512i d = dwords[4 * g + j];
      keys[j] = _mm512_shuffle_epi8(table, _mm512_and_si512(d, nibble));
      keys[4 + j] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(d, 4), nibble));
    }
    const __m512i code = _mm512_and_si512(_mm512_srlv_epi32(all_scales, _mm512_set1_epi32(8 * g)),
                                          _mm512_set1_epi32(255));
    // Codes are doubled on both sides: a quarter.
    const __m512 key_scale =
        _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(code, 23)), _mm512_set1_ps(0.25f));
    for (int h = 0; h < query.heads; h += 4) {
      add_group<4>(query, h, g, keys, key_scale, surplus, dots);
    }
  }
  __m512 total = _mm512_setzero_ps();
  for (int h = 0; h < query.heads; ++h) {
    const __m512 relu = _mm512_max_ps(dots[h], _mm512_setzero_ps());
    total = _mm512_fmadd_ps(relu, _mm512_set1_ps(query.weights[h]), total);
  }
  total = _mm512_add_ps(total, _mm512_setzero_ps());  // -0 becomes +0
  const __mmask16 nan = _mm512_cmp_ps_mask(total, total, _CMP_UNORD_Q);
  total = _mm512_mask_mov_ps(total, nan, _mm512_set1_ps(-__builtin_inff()));
  _mm512_mask_storeu_ps(out, static_cast<__mmask16>((1u << count) - 1), total);
  return true;
}

}  // namespace yeoul::cpu::avx512
