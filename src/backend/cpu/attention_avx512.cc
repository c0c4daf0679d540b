// Attention of some heads of one row, a block of 64 slots at a time. Keys are decoded to BF16 once
// for all heads; scores are dots in the written order; the softmax has 16 heads side by side, so
// that each head's sum runs in slot order; values are vdpbf16ps over pairs of slots, odd slot
// first, with 16 channels side by side. An empty slot has weight zero and a key of zeros, which
// adds nothing.

#include "backend/cpu/lanes_avx512.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"

namespace yeoul::cpu::avx512 {
namespace {

constexpr float kWeightMin = 0x1p-64f;  // attention.cc

struct Workspace {
  uint16_t* keys;  // [kSlotBlock][width], natural order
  uint32_t*
      key_pairs;      // [kSlotBlock / 2][width], of each 32 channels 0-3, 8-11, ... 4-7, 12-15, ...
  float* scores;      // [kSlotBlock][stride]
  uint32_t* weights;  // [kSlotBlock / 2][stride], two BF16
  float* values;      // [stride][width], channels as in key_pairs
  float* largest;     // [stride]
  float* denominator;  // [stride]
  float* rescale;      // [stride]
  int64_t stride;      // heads, padded
};

Workspace workspace_of(const AttentionHeads& a) {
  Workspace w{};
  w.stride = (a.heads + 15) / 16 * 16;
  float* at = a.workspace;
  const auto take = [&at](int64_t floats) {
    float* begin = at;
    at += floats;
    return begin;
  };
  w.keys = reinterpret_cast<uint16_t*>(take(kSlotBlock * a.width / 2));
  w.key_pairs = reinterpret_cast<uint32_t*>(take(kSlotBlock * a.width / 2));
  w.scores = take(kSlotBlock * w.stride);
  w.weights = reinterpret_cast<uint32_t*>(take(kSlotBlock / 2 * w.stride));
  w.values = take(w.stride * a.width);
  w.largest = take(w.stride);
  w.denominator = take(w.stride);
  w.rescale = take(w.stride);
  return w;
}

bool plain_operands(const uint16_t* x, int64_t n) {
  const __m512i low = _mm512_set1_epi16(kPlainExponentMin);
  const __m512i width = _mm512_set1_epi16(kPlainExponentMax - kPlainExponentMin);
  __mmask32 outside = 0;
  for (int64_t i = 0; i < n; i += 32) {
    const __m512i m = _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi16(0x7FFF));
    const __m512i exponent = _mm512_sub_epi16(_mm512_srli_epi16(m, 7), low);
    outside |= _mm512_mask_cmpgt_epu16_mask(_mm512_test_epi16_mask(m, m), exponent, width);
  }
  return outside == 0;
}

void decode_fp8(const Fp8Tables& tables, const KeyRow& key, int64_t width, uint16_t* out) {
  for (int64_t d = 0; d < width; d += 64) {
    __m512i a, b;
    expand_fp8(tables, key.codes + d, &a, &b);
    _mm512_storeu_si512(out + d, scale_words(a, exponent_shift(key.scales[d / 32])));
    _mm512_storeu_si512(out + d + 32, scale_words(b, exponent_shift(key.scales[d / 32 + 1])));
  }
}

// 32 channels have two scales: a table of 16 products for each, joined to one of 32.
void decode_fp4(const KeyRow& key, int64_t width, uint16_t* out) {
  const __m512 values = _mm512_loadu_ps(kE2m1Values.data());
  const __m512i second = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(16), 1);
  for (int64_t d = 0; d < width; d += 32) {
    const __m512 t0 = _mm512_mul_ps(values, _mm512_set1_ps(kE4m3Values.data()[key.scales[d / 16]]));
    const __m512 t1 =
        _mm512_mul_ps(values, _mm512_set1_ps(kE4m3Values.data()[key.scales[d / 16 + 1]]));
    const __m512i table = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(t1, t0));
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(key.codes + d / 2));
    const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
    const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
    const __m256i codes = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_unpacklo_epi8(low, high)), _mm_unpackhi_epi8(low, high), 1);
    const __m512i index = _mm512_or_si512(_mm512_cvtepu8_epi16(codes), second);
    _mm512_storeu_si512(out + d, _mm512_permutexvar_epi16(index, table));
  }
}

// Scores of `slots` keys for all heads, scores[slot][head].
void score(const AttentionHeads& a, const Workspace& w, int64_t slots) {
  for (int64_t h = 0; h < a.heads; h += 4) {
    const uint16_t* queries[4];
    for (int i = 0; i < 4; ++i) queries[i] = a.queries + (h + i) * a.width;
    dot_rows(w.keys, a.width, slots, queries, a.width, w.scores + h, w.stride);
  }
}

// BF16 in the upper half of each word; what is too small becomes zero.
inline __m512i weight_of(__m512 e) {
  const __mmask16 kept = _mm512_cmp_ps_mask(e, _mm512_set1_ps(kWeightMin), _CMP_NLT_UQ);
  return _mm512_maskz_and_epi32(kept, bf16_in_upper_half(e),
                                _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)));
}

void soften(const AttentionHeads& a, const Workspace& w, uint64_t present, int64_t slots) {
  const __m512 scale = _mm512_set1_ps(a.scale);
  const auto is_present = [present](int64_t slot) { return (present >> slot & 1) != 0; };
  for (int64_t h = 0; h < w.stride; h += 16) {
    const __m512 before = _mm512_loadu_ps(w.largest + h);
    __m512 largest = before;
    for (int64_t s = 0; s < slots; ++s) {
      if (!is_present(s)) continue;
      float* at = w.scores + s * w.stride + h;
      const __m512 z = _mm512_mul_ps(_mm512_loadu_ps(at), scale);
      _mm512_storeu_ps(at, z);
      largest = _mm512_max_ps(z, largest);  // a NaN leaves it
    }
    const __m512 rescale = exp_float(_mm512_sub_ps(before, largest));
    __m512 sum = _mm512_setzero_ps();
    const auto weight = [&](int64_t slot) {
      if (slot >= slots || !is_present(slot)) return _mm512_setzero_si512();
      const __m512 e =
          exp_float(_mm512_sub_ps(_mm512_loadu_ps(w.scores + slot * w.stride + h), largest));
      sum = _mm512_add_ps(sum, e);
      return weight_of(e);
    };
    for (int64_t s = 0; s < slots; s += 2) {
      const __m512i even = weight(s);
      const __m512i odd = weight(s + 1);
      _mm512_storeu_si512(w.weights + s / 2 * w.stride + h,
                          _mm512_or_si512(odd, _mm512_srli_epi32(even, 16)));
    }
    _mm512_storeu_ps(w.largest + h, largest);
    _mm512_storeu_ps(w.rescale + h, rescale);
    _mm512_storeu_ps(w.denominator + h,
                     _mm512_fmadd_ps(_mm512_loadu_ps(w.denominator + h), rescale, sum));
  }
}

void pair_keys(const Workspace& w, int64_t width, int64_t slots) {
  for (int64_t s = 0; s < slots; s += 2) {
    const uint16_t* even = w.keys + s * width;
    uint32_t* out = w.key_pairs + s / 2 * width;
    for (int64_t d = 0; d < width; d += 32) {
      const __m512i a = _mm512_loadu_si512(even + d), b = _mm512_loadu_si512(even + width + d);
      _mm512_storeu_si512(out + d, _mm512_unpacklo_epi16(a, b));
      _mm512_storeu_si512(out + d + 16, _mm512_unpackhi_epi16(a, b));
    }
  }
}

// values = values * rescale + sum over the pairs of slots, 64 channels of kHeads heads.
template <int kHeads>
void add_values(const Workspace& w, int64_t width, int64_t head, int64_t channel, int64_t pairs) {
  __m512 sums[kHeads][4];
  for (int h = 0; h < kHeads; ++h) {
    for (int c = 0; c < 4; ++c) sums[h][c] = _mm512_setzero_ps();
  }
  const uint32_t* keys = w.key_pairs + channel;
  const uint32_t* weights = w.weights + head;
  for (int64_t p = 0; p < pairs; ++p, keys += width, weights += w.stride) {
    const __m512i k0 = _mm512_loadu_si512(keys), k1 = _mm512_loadu_si512(keys + 16);
    const __m512i k2 = _mm512_loadu_si512(keys + 32), k3 = _mm512_loadu_si512(keys + 48);
    for (int h = 0; h < kHeads; ++h) {
      const __m512i weight = _mm512_set1_epi32(static_cast<int>(weights[h]));
      sums[h][0] = step(sums[h][0], weight, k0);
      sums[h][1] = step(sums[h][1], weight, k1);
      sums[h][2] = step(sums[h][2], weight, k2);
      sums[h][3] = step(sums[h][3], weight, k3);
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    float* out = w.values + (head + h) * width + channel;
    const __m512 rescale = _mm512_set1_ps(w.rescale[head + h]);
    for (int c = 0; c < 4; ++c) {
      float* at = out + 16 * c;
      _mm512_storeu_ps(at, _mm512_fmadd_ps(_mm512_loadu_ps(at), rescale, sums[h][c]));
    }
  }
}

void add_values_of_block(const AttentionHeads& a, const Workspace& w, int64_t pairs) {
  for (int64_t channel = 0; channel < a.width; channel += 64) {
    int64_t h = 0;
    for (; h + 6 <= a.heads; h += 6) add_values<6>(w, a.width, h, channel, pairs);
    for (; h + 4 <= a.heads; h += 4) add_values<4>(w, a.width, h, channel, pairs);
    for (; h < a.heads; ++h) add_values<1>(w, a.width, h, channel, pairs);
  }
}

void finish(const AttentionHeads& a, const Workspace& w) {
  const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
  const __m512i second =
      _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
  for (int64_t h = 0; h < w.stride; h += 16) {
    const __mmask16 valid =
        static_cast<__mmask16>(a.heads - h >= 16 ? 0xFFFF : (1 << (a.heads - h)) - 1);
    const __m512 sink = _mm512_maskz_loadu_ps(valid, a.sink + h);
    const __m512 e = exp_float(_mm512_sub_ps(sink, _mm512_loadu_ps(w.largest + h)));
    _mm512_storeu_ps(w.denominator + h, _mm512_add_ps(_mm512_loadu_ps(w.denominator + h), e));
  }
  for (int64_t h = 0; h < a.heads; ++h) {
    const __m512 denominator = _mm512_set1_ps(w.denominator[h]);
    for (int64_t d = 0; d < a.width; d += 32) {
      const float* from = w.values + h * a.width + d;
      const __m512 low = _mm512_div_ps(_mm512_loadu_ps(from), denominator);
      const __m512 high = _mm512_div_ps(_mm512_loadu_ps(from + 16), denominator);
      auto* to = reinterpret_cast<__m256i*>(a.out + h * a.width + d);
      _mm256_storeu_si256(to, to_bf16(_mm512_permutex2var_ps(low, first, high)));
      _mm256_storeu_si256(to + 1, to_bf16(_mm512_permutex2var_ps(low, second, high)));
    }
  }
}

}  // namespace

bool attend(const AttentionHeads& a) {
  if (a.heads % 4 != 0 || a.width % 64 != 0 || a.width > kSegment) return false;
  if (!plain_operands(a.queries, a.heads * a.width)) return false;
  for (int64_t j = 0; j < a.num_keys; ++j) {
    if (a.keys[j].fp8 && !plain_scales(a.keys[j].scales, a.width / 32)) return false;
  }
  const Workspace w = workspace_of(a);
  __builtin_memset(w.values, 0, static_cast<size_t>(w.stride * (a.width + 3)) * sizeof(float));
  for (int64_t h = 0; h < w.stride; ++h) w.largest[h] = -1e30f;
  // Lanes of heads that do not exist stay numbers.
  __builtin_memset(w.scores, 0, static_cast<size_t>(kSlotBlock * w.stride) * sizeof(float));
  const Fp8Tables tables = fp8_tables();
  for (int64_t j = 0; j < a.num_keys;) {
    const int32_t block = a.keys[j].slot / kSlotBlock;
    uint64_t present = 0;
    int64_t slots = 0;
    for (; j < a.num_keys && a.keys[j].slot / kSlotBlock == block; ++j) {
      const int32_t slot = a.keys[j].slot % kSlotBlock;
      for (; slots < slot; ++slots) {
        __builtin_memset(w.keys + slots * a.width, 0, static_cast<size_t>(a.width) * 2);
      }
      uint16_t* key = w.keys + slots++ * a.width;
      if (a.keys[j].fp8) {
        decode_fp8(tables, a.keys[j], a.width, key);
      } else {
        decode_fp4(a.keys[j], a.width, key);
      }
      present |= uint64_t{1} << slot;
    }
    if (slots % 2 != 0) {
      __builtin_memset(w.keys + slots * a.width, 0, static_cast<size_t>(a.width) * 2);
    }
    score(a, w, slots);
    soften(a, w, present, slots);
    pair_keys(w, a.width, slots);
    add_values_of_block(a, w, (slots + 1) / 2);
  }
  finish(a, w);
  return true;
}

}  // namespace yeoul::cpu::avx512
