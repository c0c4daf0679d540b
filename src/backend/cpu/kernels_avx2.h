#pragma once

#include "backend/cpu/kernels.h"

namespace yeoul::cpu::avx2 {

bool score_keys(const IndexQuery& query, const uint8_t* const* codes, const uint8_t* const* scales,
                int count, float* out);

}  // namespace yeoul::cpu::avx2
