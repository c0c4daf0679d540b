#pragma once

// BF16: the upper half of a float32.

#include <bit>
#include <cstdint>

namespace yeoul {

struct Bf16 {
  uint16_t bits = 0;
  friend bool operator==(const Bf16&, const Bf16&) = default;
};

inline float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

// Round to nearest, ties to even. A NaN stays one: its payload's lowest kept bit is set so that the
// carry cannot turn it into an infinity.
inline Bf16 to_bf16(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

// A float rounded to the nearest BF16 value.
inline float round_bf16(float value) {
  return to_float(to_bf16(value));
}

}  // namespace yeoul
