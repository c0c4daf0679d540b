#pragma once

// The summation orders of docs/numerics.md in plain loops. Acc is float (serving) or double (exact
// comparison). Operands of the BF16 dot are kept in lane order: of each group of 32, the 16 odd
// elements first, then the 16 even ones.

#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/weight.h"
#include "tensor/formats/bf16.h"

namespace yeoul::cpu {

// Length of an operand in lane order.
constexpr int64_t padded(int64_t k) {
  return (k + kGroup - 1) / kGroup * kGroup;
}

// Lane order of n BF16 or float values (each representable in BF16), padded with zeros.
void to_lane_order(const Bf16* x, int64_t n, float* out);
void to_lane_order(const float* x, int64_t n, float* out);
void from_lane_order(const float* x, int64_t n, float* out);

// One row of a weight, expanded with its scales: operand order, then lane order, [operand_len].
void expand_row(const Weight& weight, int64_t row, float* out);

// Sums of a tile by the book, y [rows][kOutputTile].
void sum_tile(const LinearTile& tile, float* y);
void sum_tile(const LinearTile& tile, double* y);

// out[j] = dot(x, w + j * w_stride) for j = 0 .. count-1; both operands in lane order, length k.
void dots(const float* x, const float* w, int64_t w_stride, int64_t k, int64_t count, float* out);
void dots(const float* x, const float* w, int64_t w_stride, int64_t k, int64_t count, double* out);

// Dot of two float32 vectors in natural order (one element a lane).
void dot_wide(const float* a, const float* b, int64_t k, float* out);
void dot_wide(const float* a, const float* b, int64_t k, double* out);

// The same for some rows of x and some of w: out[row * out_stride + output].
void dots_wide(const float* x, int64_t x_stride, int64_t rows, const float* w, int64_t w_stride,
               int64_t count, int64_t k, float* out, int64_t out_stride);
void dots_wide(const float* x, int64_t x_stride, int64_t rows, const float* w, int64_t w_stride,
               int64_t count, int64_t k, double* out, int64_t out_stride);

// sum[d] = fma(p[slot], keys[slot][d], sum[d]) over the slots of one block, pairs (2i+1, 2i) in
// ascending order, odd slot first; a null key is an empty slot and is skipped.
void add_values(const float* p, const float* const* keys, int num_slots, int64_t width, float* sum);
void add_values(const float* p, const float* const* keys, int num_slots, int64_t width,
                double* sum);

}  // namespace yeoul::cpu
