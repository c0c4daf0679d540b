#pragma once

#include <cstdint>

namespace yeoul::speed {

// Operations a second of oneDNN's bf16 product of [rows, inputs] and [outputs, inputs]; 0 where it
// is not built in.
double onednn_bf16(int threads, int64_t rows, int64_t inputs, int64_t outputs);

}  // namespace yeoul::speed
