// Operands of linear layers and the experts' activation, 16 values at a time.

#include "backend/cpu/lanes_avx512.h"

namespace yeoul::cpu::avx512 {
namespace {

// Nearest e4m3 value, ties to even, saturating at +-448. No NaN.
inline __m512 round_e4m3(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i sign = _mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0x80000000u)));
  const __m512i m = _mm512_andnot_si512(sign, bits);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(m, 20), _mm512_set1_epi32(1));
  __m512i v = _mm512_add_epi32(_mm512_add_epi32(m, _mm512_set1_epi32(0x7FFFF)), odd);
  v = _mm512_and_si512(v, _mm512_set1_epi32(~0xFFFFF));
  // Below 2^-6: multiples of 2^-9.
  const __m512 grid = _mm512_set1_ps(0x1p14f);
  const __m512 fine = _mm512_sub_ps(_mm512_add_ps(_mm512_castsi512_ps(m), grid), grid);
  v = _mm512_mask_mov_epi32(v, _mm512_cmplt_epi32_mask(m, _mm512_set1_epi32(0x3C800000)),
                            _mm512_castps_si512(fine));
  v = _mm512_min_epi32(v, _mm512_set1_epi32(0x43E00000));
  return _mm512_castsi512_ps(_mm512_or_si512(v, sign));
}

// 32 BF16 values rounded to FP8 with their common scale (tensor/formats/kv_rows.h).
inline __m512i round_fp8_group(__m512i words) {
  const __m512 low = from_bf16(_mm512_castsi512_si256(words));
  const __m512 high = from_bf16(_mm512_extracti64x4_epi64(words, 1));
  const float amax = _mm512_reduce_max_ps(
      _mm512_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)), _mm512_set1_ps(1e-4f)));
  uint32_t u;
  const float t = amax * (1.0f / 448.0f);
  __builtin_memcpy(&u, &t, 4);
  const uint32_t code = (u >> 23) + ((u & 0x7FFFFF) != 0 ? 1 : 0);
  const __m512 scale = _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(code << 23)));
  const __m512 inverse =
      _mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>((254 - code) << 23)));
  const __m512 a = _mm512_mul_ps(round_e4m3(_mm512_mul_ps(low, inverse)), scale);
  const __m512 b = _mm512_mul_ps(round_e4m3(_mm512_mul_ps(high, inverse)), scale);
  return _mm512_inserti64x4(_mm512_castsi256_si512(to_bf16(a)), to_bf16(b), 1);
}

// Positions 32n + w from columns 4w + n, n = 0..3.
inline void store_nibble_order(const __m512i* in, uint16_t* out) {
  alignas(64) uint16_t pick[32];
  for (int n = 0; n < 4; ++n) {
    for (int w = 0; w < 16; ++w) pick[w] = static_cast<uint16_t>(4 * w + n);
    for (int w = 16; w < 32; ++w) pick[w] = 0;
    const __m512i index = _mm512_load_si512(pick);
    const __m512i first = _mm512_permutex2var_epi16(in[0], index, in[1]);
    const __m512i second = _mm512_permutex2var_epi16(in[2], index, in[3]);
    _mm512_storeu_si512(out + 32 * n, _mm512_inserti64x4(first, _mm512_castsi512_si256(second), 1));
  }
}

}  // namespace

bool load_operand(const OperandRow& row) {
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  const __m512i low = _mm512_set1_epi16(kPlainExponentMin);
  const __m512i width = _mm512_set1_epi16(kPlainExponentMax - kPlainExponentMin);
  __mmask32 outside = 0;
  for (int64_t block = 0; block < row.columns; block += kOrderBlock) {
    __m512i words[4];
    for (int i = 0; i < 4; ++i) {
      const int64_t left = row.columns - block - 32 * i;
      const __mmask32 valid = left >= 32  ? ~__mmask32{0}
                              : left <= 0 ? 0
                                          : (__mmask32{1} << left) - 1;
      words[i] = _mm512_maskz_loadu_epi16(valid, row.x + block + 32 * i);
      if (row.fp8 && left > 0) {
        // An infinity or a NaN: the scalar path knows.
        if (_mm512_cmpge_epu16_mask(_mm512_and_si512(words[i], magnitude),
                                    _mm512_set1_epi16(0x7F80)) != 0) {
          return scalar_kernels().load_operand(row);
        }
        words[i] = round_fp8_group(words[i]);
      }
      const __m512i m = _mm512_and_si512(words[i], magnitude);
      const __m512i exponent = _mm512_sub_epi16(_mm512_srli_epi16(m, 7), low);
      outside |= _mm512_mask_cmpgt_epu16_mask(_mm512_test_epi16_mask(m, m), exponent, width);
    }
    if (row.nibble_order) {
      store_nibble_order(words, row.out + block);
    } else {
      for (int i = 0; i < 4; ++i) _mm512_storeu_si512(row.out + block + 32 * i, words[i]);
    }
  }
  return outside == 0;
}

void gate_up(const float* gate, const float* up, int64_t n, float limit, bool weighted,
             float weight, uint16_t* out) {
  const __m512 top = _mm512_set1_ps(limit), bottom = _mm512_set1_ps(-limit);
  const __m512 one = _mm512_set1_ps(1.0f), factor = _mm512_set1_ps(weight);
  for (int64_t i = 0; i < n; i += 16) {
    const __mmask16 valid = static_cast<__mmask16>(n - i >= 16 ? 0xFFFF : (1 << (n - i)) - 1);
    // The second operand is what a NaN in it gives.
    const __m512 g = _mm512_min_ps(top, round_bf16(_mm512_maskz_loadu_ps(valid, gate + i)));
    const __m512 u =
        _mm512_min_ps(top, _mm512_max_ps(bottom, round_bf16(_mm512_maskz_loadu_ps(valid, up + i))));
    const __m512 negative =
        _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(g), _mm512_set1_epi32(INT32_MIN)));
    __m512 a = _mm512_mul_ps(_mm512_div_ps(g, _mm512_add_ps(one, exp_float(negative))), u);
    if (weighted) a = _mm512_mul_ps(factor, a);
    _mm256_mask_storeu_epi16(out + i, valid, to_bf16(a));
  }
}

}  // namespace yeoul::cpu::avx512
