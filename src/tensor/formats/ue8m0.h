#pragma once

// UE8M0: a power of two, byte b means 2^(b-127). Byte 255 is NaN in the OCP specification.

#include <bit>
#include <cstdint>
#include <limits>

namespace yeoul {

inline float ue8m0_to_float(uint8_t code) {
  if (code == 255) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;  // the one denormal
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// 2^ceil(log2 t) as its UE8M0 code, from the bit pattern of a positive, normal float32 (model.md
// section 3.1: exponent field, plus one if the mantissa is not zero).
inline uint8_t ue8m0_ceil(float t) {
  const uint32_t u = std::bit_cast<uint32_t>(t);
  return static_cast<uint8_t>(((u >> 23) & 0xFFu) + ((u & 0x7FFFFFu) != 0 ? 1u : 0u));
}

}  // namespace yeoul
