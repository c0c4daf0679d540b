// The specification of the inner loops, in plain C++ (docs/numerics.md).

#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/cpu/sums.h"
#include "backend/math_functions.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

bool linear(const LinearTile& tile) {
  sum_tile(tile, tile.y);
  return true;
}

bool is_plain(uint16_t bits) {
  const int exponent = bits >> 7 & 0xFF;
  return (bits & 0x7FFF) == 0 || (exponent >= kPlainExponentMin && exponent <= kPlainExponentMax);
}

// Column of a position in operand order, both within a block.
int64_t column_in_block(int64_t position, bool nibble_order) {
  return nibble_order ? 4 * (position % 32) + position / 32 : position;
}

bool load_operand(const OperandRow& row) {
  bool plain = true;
  for (int64_t block = 0; block < operand_len(row.columns); block += kOrderBlock) {
    float values[kOrderBlock] = {};
    const int64_t count = std::min(kOrderBlock, row.columns - block);
    for (int64_t i = 0; i < count; ++i) values[i] = to_float(Bf16{row.x[block + i]});
    if (row.fp8) quantize_fp8({values, static_cast<size_t>(count)});
    for (int64_t p = 0; p < kOrderBlock; ++p) {
      const uint16_t bits = to_bf16(values[column_in_block(p, row.nibble_order)]).bits;
      row.out[block + p] = bits;
      plain = plain && is_plain(bits);
    }
  }
  return plain;
}

void gate_up(const float* gate, const float* up, int64_t n, float limit, bool weighted,
             float weight, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = std::min(round_bf16(gate[i]), limit);
    const float u = std::clamp(round_bf16(up[i]), -limit, limit);
    float a = g / (1.0f + exp_float(-g)) * u;
    if (weighted) a = weight * a;
    out[i] = to_bf16(a).bits;
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels kernels{linear, load_operand, gate_up, nullptr, nullptr};
  return kernels;
}

}  // namespace yeoul::cpu
