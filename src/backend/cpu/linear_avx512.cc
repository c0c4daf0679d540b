// Tiles of linear layers with vdpbf16ps, which is one lane step of the written order: odd operand
// first, fused. Codes become BF16 in registers by table look-up.
//
// One row: each output has one accumulator of 16 lanes and the weights pass through once. An FP4
// row changes its scale every 32 columns; the accumulator is rescaled by the quotient of two powers
// of two instead of scaling 32 operands (exact for plain operands, kernels.h). FP8 scales belong to
// a whole tile of 32 outputs, so the operands are scaled once a tile.
//
// Many rows: four outputs are expanded, a segment at a time, and meet the rows six at once.

#include "backend/cpu/lanes_avx512.h"

namespace yeoul::cpu::avx512 {
namespace {

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

// The same from four words in one instruction: byte 3 of a dword takes bits 7..1 of its exponent,
// byte 2 the last bit above seven zeros, the others zeros (the words' upper bytes are zero).
inline __m512 spread_words(const uint16_t* words, __m512i control) {
  int64_t four;
  __builtin_memcpy(&four, words, 8);
  return _mm512_castsi512_ps(_mm512_multishift_epi64_epi8(control, _mm512_set1_epi64(four)));
}

inline __m512i word_control() {
  const auto lane = [](int g) {
    const auto high = static_cast<uint32_t>(16 * g + 1),
               low = static_cast<uint32_t>(16 * g + 57) & 63;
    const auto zeros = static_cast<uint32_t>(16 * g + 8);
    return _mm_set1_epi32(static_cast<int>(high << 24 | low << 16 | zeros << 8 | zeros));
  };
  __m512i c = _mm512_castsi128_si512(lane(0));
  c = _mm512_inserti32x4(c, lane(1), 1);
  c = _mm512_inserti32x4(c, lane(2), 2);
  return _mm512_inserti32x4(c, lane(3), 3);
}

// The last, partial block of some rows, filled with zeros: code 0 is zero in every format.
template <int kOutputs>
struct Tails {
  alignas(64) uint8_t bytes[kOutputs][64];
  const uint8_t* rows[kOutputs];

  Tails(const uint8_t* const* from, int64_t offset, int64_t count) {
    const __mmask64 valid = (__mmask64{1} << count) - 1;  // fewer than 64
    for (int o = 0; o < kOutputs; ++o) {
      _mm512_store_si512(bytes[o], _mm512_maskz_loadu_epi8(valid, from[o] + offset));
      rows[o] = bytes[o];
    }
  }
};

// body(k, rows, offset) for every block of `size` columns that are `bytes` bytes; a partial block
// at the end of the row comes from a copy.
template <int kOutputs, typename Body>
inline void for_blocks(const uint8_t* const* rows, int64_t begin, int64_t end, int64_t size,
                       int64_t bytes, const Body& body) {
  const int64_t whole = begin + (end - begin) / size * size;
  for (int64_t k = begin; k < whole; k += size) body(k, rows, k / size * bytes);
  if (whole == end) return;
  const Tails<kOutputs> tails(rows, whole / size * bytes, (end - whole) * bytes / size);
  body(whole, tails.rows, int64_t{0});
}

template <int kOutputs>
inline void bf16_row(const uint8_t* const* rows, int64_t ahead, const uint16_t* x, int64_t begin,
                     int64_t end, float* out) {
  __m512 sums[kOutputs];
  for (int o = 0; o < kOutputs; ++o) sums[o] = _mm512_setzero_ps();
  for_blocks<kOutputs>(rows, begin, end, 32, 64,
                       [&](int64_t k, const uint8_t* const* at, int64_t offset) {
                         const __m512i operand = _mm512_loadu_si512(x + k);
                         for (int o = 0; o < kOutputs; ++o) {
                           const uint8_t* values = at[o] + offset;
                           _mm_prefetch(reinterpret_cast<const char*>(values + ahead), _MM_HINT_T0);
                           sums[o] = step(sums[o], operand, _mm512_loadu_si512(values));
                         }
                       });
  store_joined<kOutputs>(sums, out);
}

// x already holds the tile's scales.
template <int kOutputs>
inline void fp8_row(const uint8_t* const* rows, int64_t ahead, const uint16_t* x, int64_t begin,
                    int64_t end, float* out) {
  const Fp8Tables tables = fp8_tables();
  __m512 sums[kOutputs];
  for (int o = 0; o < kOutputs; ++o) sums[o] = _mm512_setzero_ps();
  for_blocks<kOutputs>(
      rows, begin, end, 64, 64, [&](int64_t k, const uint8_t* const* at, int64_t offset) {
        const __m512i x0 = _mm512_loadu_si512(x + k), x1 = _mm512_loadu_si512(x + k + 32);
        for (int o = 0; o < kOutputs; ++o) {
          const uint8_t* codes = at[o] + offset;
          _mm_prefetch(reinterpret_cast<const char*>(codes + ahead), _MM_HINT_T0);
          __m512i w0, w1;
          expand_fp8(tables, codes, &w0, &w1);
          sums[o] = step(step(sums[o], x0, w0), x1, w1);
        }
      });
  store_joined<kOutputs>(sums, out);
}

// The scales of an FP4 row in one segment. Four groups of a block lie in the four 128-bit lanes of
// an accumulator; a group that a partial block lacks repeats the one before in its lane.
struct SegmentScales {
  alignas(64) uint8_t now[64];
  // Exponents of scale[g - 4] / scale[g]; the first four are one.
  alignas(64) uint16_t quotients[64];

  // False: one of them is not plain.
  bool load(const uint8_t* scales, int64_t groups) {
    const __mmask64 all = ~__mmask64{0}, first = 0xF;
    const __mmask64 valid = groups >= 64 ? all : (__mmask64{1} << groups) - 1;
    const __m512i one = _mm512_set1_epi8(127);
    const __m512i before = _mm512_mask_loadu_epi8(one, (valid << 4), scales - 4);
    const __m512i here = _mm512_mask_loadu_epi8(before, valid, scales);
    const __m512i quotient = _mm512_add_epi8(_mm512_sub_epi8(before, here), one);
    _mm512_store_si512(now, here);
    const __m512i kept = _mm512_mask_mov_epi8(quotient, first, one);
    _mm512_store_si512(quotients, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(kept)));
    _mm512_store_si512(quotients + 32, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(kept, 1)));
    const __m512i above =
        _mm512_sub_epi8(here, _mm512_set1_epi8(static_cast<char>(kPlainScaleMin)));
    return _mm512_mask_cmpgt_epu8_mask(valid, above,
                                       _mm512_set1_epi8(kPlainScaleMax - kPlainScaleMin)) == 0;
  }
};

template <int kOutputs>
inline bool fp4_row(const uint8_t* const* rows, int64_t ahead, const uint8_t* const* scales,
                    const uint16_t* x, int64_t begin, int64_t end, float* out) {
  const __m512i table = _mm512_load_si512(kTables.nibble);
  const __m512i control = spread_control();
  const __m512i words = word_control();
  SegmentScales segment[kOutputs];
  __m512 sums[kOutputs];
  bool plain = true;
  for (int o = 0; o < kOutputs; ++o) {
    _mm_prefetch(reinterpret_cast<const char*>(scales[o] + kOutputs * (scales[1] - scales[0]) +
                                               begin / kGroup),
                 _MM_HINT_T0);
    plain &= segment[o].load(scales[o] + begin / kGroup, (end - begin) / kGroup);
    sums[o] = _mm512_setzero_ps();
  }
  for_blocks<kOutputs>(
      rows, begin, end, kOrderBlock, 64, [&](int64_t k, const uint8_t* const* at, int64_t offset) {
        const __m512i x0 = _mm512_loadu_si512(x + k), x1 = _mm512_loadu_si512(x + k + 32);
        const __m512i x2 = _mm512_loadu_si512(x + k + 64), x3 = _mm512_loadu_si512(x + k + 96);
        for (int o = 0; o < kOutputs; ++o) {
          const uint8_t* bytes = at[o] + offset;
          _mm_prefetch(reinterpret_cast<const char*>(bytes + ahead), _MM_HINT_T0);
          const __m512i codes = _mm512_loadu_si512(bytes);
          const uint16_t* quotients = segment[o].quotients + (k - begin) / kGroup;
          __m512 s = _mm512_mul_ps(sums[o], spread_words(quotients, words));
          s = step(s, x0, _mm512_permutexvar_epi16(codes, table));
          s = step(s, x1, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), table));
          s = step(s, x2, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), table));
          sums[o] = step(s, x3, _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), table));
        }
      });
  const int64_t last = (operand_len(end - begin) - kOrderBlock) / kGroup;
  for (int o = 0; o < kOutputs; ++o) {
    sums[o] = _mm512_mul_ps(sums[o], spread_scales(segment[o].now + last, control));
  }
  store_joined<kOutputs>(sums, out);
  return plain;
}

// The row's operands times the scales of this tile of FP8 weights.
const uint16_t* scaled_operands(const LinearTile& tile, const Source& source, uint16_t* out) {
  for (int64_t k = 0; k < operand_len(source.columns); k += kGroup) {
    const __m512i words = _mm512_loadu_si512(tile.x + k);
    if (k >= source.columns) {  // padding
      _mm512_storeu_si512(out + k, words);
      continue;
    }
    _mm512_storeu_si512(out + k, scale_words(words, exponent_shift(source.scales[k / kGroup])));
  }
  return out;
}

// segments[s][output] of one row. Outputs behind the last repeat it. False: a scale is not plain.
bool one_row(const LinearTile& tile, const Source& source) {
  constexpr int kAtOnce = 8;
  // Rows lie one after another: each line asks for the one at its place in the next group of rows.
  const int64_t ahead = kAtOnce * source.row_bytes;
  bool plain = true;
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
          bf16_row<kAtOnce>(rows, ahead, x, begin, end, out);
          break;
        case WeightFormat::kFp8:
          fp8_row<4>(rows, ahead, x, begin, end, out);
          fp8_row<4>(rows + 4, ahead, x, begin, end, out + 4);
          break;
        case WeightFormat::kFp4:
          plain &= fp4_row<kAtOnce>(rows, ahead, scales, x, begin, end, out);
          break;
      }
    }
  }
  return plain;
}

// ---- many rows --------------------------------------------------------------------------------

// One row of weights of one segment as BF16 with its scales, in operand order, padded with zeros.
void expand_row(const LinearTile& tile, const Source& source, int64_t output, int64_t begin,
                int64_t end, uint16_t* out) {
  const uint8_t* codes = source.codes + output * source.row_bytes;
  const uint8_t* scales = source.scales + output * source.scale_bytes;
  if (tile.weight.format == WeightFormat::kFp8) {
    const Fp8Tables tables = fp8_tables();
    for_blocks<1>(&codes, begin, end, 64, 64,
                  [&](int64_t k, const uint8_t* const* at, int64_t offset) {
                    __m512i w0, w1;
                    expand_fp8(tables, at[0] + offset, &w0, &w1);
                    const uint8_t* scale = scales + k / kGroup;
                    const uint8_t second = k + kGroup < end ? scale[1] : uint8_t{127};
                    uint16_t* to = out + k - begin;
                    _mm512_store_si512(to, scale_words(w0, exponent_shift(scale[0])));
                    _mm512_store_si512(to + 32, scale_words(w1, exponent_shift(second)));
                  });
    return;
  }
  const __m512i table = _mm512_load_si512(kTables.nibble);
  const __m512i control = spread_control();
  SegmentScales segment;
  segment.load(scales + begin / kGroup, (end - begin) / kGroup);
  for_blocks<1>(&codes, begin, end, kOrderBlock, 64,
                [&](int64_t k, const uint8_t* const* at, int64_t offset) {
                  // A power of two as float32 holds its exponent where two BF16 words want it.
                  const __m512i scale = _mm512_castps_si512(
                      spread_scales(segment.now + (k - begin) / kGroup, control));
                  const __m512i both = _mm512_or_si512(scale, _mm512_srli_epi32(scale, 16));
                  const __m512i shift = _mm512_sub_epi16(both, _mm512_set1_epi16(127 * 128));
                  const __m512i c = _mm512_loadu_si512(at[0] + offset);
                  const auto nibbles = [&](__m512i words) {
                    return scale_words(_mm512_permutexvar_epi16(words, table), shift);
                  };
                  uint16_t* to = out + k - begin;
                  _mm512_store_si512(to, nibbles(c));
                  _mm512_store_si512(to + 32, nibbles(_mm512_srli_epi16(c, 4)));
                  _mm512_store_si512(to + 64, nibbles(_mm512_srli_epi16(c, 8)));
                  _mm512_store_si512(to + 96, nibbles(_mm512_srli_epi16(c, 12)));
                });
}

void many_rows(const LinearTile& tile, const Source& source) {
  auto* expanded = reinterpret_cast<uint16_t*>(tile.expanded);
  float* out = tile.segments;
  for (int64_t begin = 0; begin < source.columns; begin += kSegment) {
    const int64_t end = smaller(begin + kSegment, source.columns);
    const int64_t block = tile.weight.format == WeightFormat::kFp4   ? kOrderBlock
                          : tile.weight.format == WeightFormat::kFp8 ? 64
                                                                     : kGroup;
    const int64_t len = (end - begin + block - 1) / block * block;
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
      dot_rows(tile.x + begin, tile.x_stride, tile.rows, w, len, out + o, kOutputTile);
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
      if (columns % kGroup != 0) return false;
      break;
    case WeightFormat::kFp8:
      if (columns % kGroup != 0 || !plain_scales(source.scales, columns / kGroup)) return false;
      break;
    case WeightFormat::kFp4:
      if (columns % kGroup != 0 || !plain_scales(source.scales, tile.outputs * source.scale_bytes))
        return false;
      break;
  }
  if (tile.rows == 1) {
    if (!one_row(tile, source)) return false;
  } else {
    many_rows(tile, source);
  }
  join_segments(tile, (columns + kSegment - 1) / kSegment);
  return true;
}

}  // namespace yeoul::cpu::avx512
