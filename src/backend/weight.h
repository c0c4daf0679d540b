#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/formats/bf16.h"

namespace yeoul {

enum class WeightFormat : uint8_t {
  kBf16,  // [rows, cols] BF16
  kFp8,   // [rows, cols] e4m3; scales UE8M0 [ceil(rows/32), ceil(cols/32)], one per 32x32 tile
  kFp4,   // [rows, cols/2] two e2m1 a byte, low nibble first; scales UE8M0 [rows, cols/32]
};

// A weight matrix in its stored form: y = W x, rows outputs, cols inputs. Borrowed memory.
struct Weight {
  WeightFormat format = WeightFormat::kBf16;
  const std::byte* data = nullptr;
  const uint8_t* scales = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Rows first .. first + count - 1 of a matrix; `first` is a multiple of 32 for kFp8.
Weight row_range(const Weight& weight, int64_t first, int64_t count);

}  // namespace yeoul
