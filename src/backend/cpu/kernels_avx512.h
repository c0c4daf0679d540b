#pragma once

#include "backend/cpu/kernels.h"

// The AVX-512 kernels, a file each. Only kernels_avx512.cc needs them all.
namespace yeoul::cpu::avx512 {

bool linear(const LinearTile& tile);
bool load_operand(const OperandRow& row);
void gate_up(const float* gate, const float* up, int64_t n, float limit, bool weighted,
             float weight, uint16_t* out);
bool attend(const AttentionHeads& heads);
bool score_keys(const IndexQuery& query, const uint8_t* const* codes, const uint8_t* const* scales,
                int count, float* out);

}  // namespace yeoul::cpu::avx512
