#pragma once

#include <cstdint>

namespace yeoul {

// Where kernels may expect a tensor in memory to begin: a cache line, and a vector of 512 bits.
inline constexpr uint64_t kTensorAlignment = 64;

// Bytes that a tensor takes up with what follows it up to the next one.
constexpr uint64_t aligned_bytes(uint64_t num_bytes) {
  return (num_bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace yeoul
