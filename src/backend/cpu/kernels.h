#pragma once

// The inner loops of the float path, once for each instruction set. Every set gives the bits of the
// scalar one (docs/numerics.md); which is used is decided when the operations are made. The files
// NAME_avx512.cc, NAME_avx2.cc and NAME_neon.cc are compiled with flags of their own: they must not
// use inline functions that other files use too, or the linker may keep the wrong copy.

#include <cstdint>

#include "backend/weight.h"

namespace yeoul::cpu {

inline constexpr int64_t kLanes = 16;
inline constexpr int64_t kGroup = 32;
inline constexpr int64_t kSegment = 2048;
inline constexpr int64_t kMaxSegments = 64;  // 131,072 inputs
// Columns that share an operand order: an FP4 row is read as 16-bit words of four nibbles.
inline constexpr int64_t kOrderBlock = 128;
// Outputs of one tile of a linear layer; a tile lies inside one row of FP8 scale tiles.
inline constexpr int64_t kOutputTile = 32;
// Rows of a linear layer that share one expansion of the weights.
inline constexpr int64_t kRowBlock = 128;

// Length of a linear operand: the columns, padded with +0.
constexpr int64_t operand_len(int64_t columns) {
  return (columns + kOrderBlock - 1) / kOrderBlock * kOrderBlock;
}

// Kernels that rescale instead of folding a scale into an operand need room in the exponent: with
// nonzero operands in [2^-62, 2^53] and weight scales in [2^-40, 2^8] no operand, product or sum
// leaves the normal range, in either form, so both give the same bits. Other rows and tiles take
// the scalar path.
inline constexpr int kPlainExponentMin = 127 - 62;  // exponent field of a nonzero BF16 operand
inline constexpr int kPlainExponentMax = 127 + 53;
inline constexpr int kPlainScaleMin = 127 - 40;  // UE8M0 code of a weight scale
inline constexpr int kPlainScaleMax = 127 + 8;

// Sums of some outputs for some rows.
struct LinearTile {
  Weight weight;
  int64_t first = 0;            // output, a multiple of kOutputTile
  int64_t outputs = 0;          // 1 .. kOutputTile
  const uint16_t* x = nullptr;  // BF16 operands in operand order, [rows][x_stride]
  int64_t x_stride = 0;         // at least operand_len(columns)
  int64_t rows = 0;             // 1 .. kRowBlock
  float* y = nullptr;           // [rows][kOutputTile]
  // Workspace of one thread.
  float* expanded = nullptr;  // [kOutputTile + 1][operand_len]
  float* segments = nullptr;  // [segments of the columns][kRowBlock][kOutputTile]
};

// BF16 values of one row, rounded to FP8 in groups of 32 if asked.
struct OperandRow {
  const uint16_t* x = nullptr;
  int64_t columns = 0;
  bool fp8 = false;           // then columns is a multiple of 32
  bool nibble_order = false;  // operand order of FP4 weights
  uint16_t* out = nullptr;    // [operand_len(columns)]
};

// Slots of one attention block (model.md section 3.4; the release's kernel cuts over slots).
inline constexpr int kSlotBlock = 64;

// A key as it is stored: a window row (FP8, UE8M0 scale per 32) or a compressed row (FP4, e4m3
// scale per 16).
struct KeyRow {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  int32_t slot = 0;
  bool fp8 = false;
};

// Some heads of one row over its keys.
struct AttentionHeads {
  const uint16_t* queries = nullptr;  // BF16 [heads][width]
  int64_t heads = 0;
  int64_t width = 0;
  const KeyRow* keys = nullptr;  // in slot order
  int64_t num_keys = 0;
  float scale = 0;
  const float* sink = nullptr;  // [heads]
  uint16_t* out = nullptr;      // BF16 [heads][width]
  float* workspace = nullptr;   // attention_workspace() floats
};

// Of one thread: keys of a block twice, their scores and weights, running sums.
constexpr int64_t attention_workspace(int64_t heads, int64_t width) {
  const int64_t padded_heads = (heads + 15) / 16 * 16;
  return kSlotBlock * width + kSlotBlock / 2 * 3 * padded_heads + padded_heads * (width + 3);
}

// The index queries of one row: doubled e2m1 codes, of each group of 32 first those of the low
// nibbles, then those of the high ones; scales and the heads' weights as factors.
struct IndexQuery {
  const int8_t* codes = nullptr;   // [heads][width]
  const float* scales = nullptr;   // [heads][width / 32]
  const float* weights = nullptr;  // [heads]
  int32_t heads = 0;
  int32_t width = 0;
};
inline constexpr int kKeysAtOnce = 16;

struct Kernels {
  // False: the shape or a scale is not for this kernel; nothing is promised about y.
  // All rows are plain.
  bool (*linear)(const LinearTile& tile) = nullptr;
  // Whether the row is plain: each operand zero or within the exponents above.
  bool (*load_operand)(const OperandRow& row) = nullptr;
  // out = bf16(weight * (silu(min(gate, limit)) * clamp(up, -limit, limit))), gate and up rounded
  // to BF16 first; `weighted` is false for a weight of one.
  void (*gate_up)(const float* gate, const float* up, int64_t n, float limit, bool weighted,
                  float weight, uint16_t* out) = nullptr;
  // Null: by the book. False: the same for these operands; nothing is promised about out.
  bool (*attend)(const AttentionHeads& heads) = nullptr;
  // Scores of 1 .. kKeysAtOnce index keys, -inf for NaN. Null or false: as above.
  bool (*score_keys)(const IndexQuery& query, const uint8_t* const* codes,
                     const uint8_t* const* scales, int count, float* out) = nullptr;
};

const Kernels& scalar_kernels();
const Kernels* avx512_kernels();  // null where the build has none
const Kernels* avx2_kernels();
const Kernels* neon_kernels();

}  // namespace yeoul::cpu
