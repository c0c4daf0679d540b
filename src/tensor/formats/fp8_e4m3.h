#pragma once

// FP8 e4m3fn (OCP): sign, 4 exponent bits of bias 7, 3 mantissa bits; no infinities, 0x7F is NaN,
// largest value 448.

#include <array>
#include <bit>
#include <cstdint>

namespace yeoul {

extern const std::array<float, 256> kE4m3Values;  // code -> value

inline float e4m3_to_float(uint8_t code) {
  return kE4m3Values[code];
}

// The code of the nearest value, ties to even, saturating at +-448. NaN gives 0x7F.
inline uint8_t to_e4m3(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (u >> 24) & 0x80u;
  const uint32_t magnitude = u & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return 0x7F;
  if (magnitude >= 0x43E00000u) return static_cast<uint8_t>(sign | 0x7Eu);  // 448 and above
  if (magnitude < 0x3C800000u) {  // below 2^-6: multiples of 2^-9; adding 2^14 rounds to that grid
    const float rounded = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(rounded) & 0xFu));
  }
  const uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - ((127u - 7u) << 3)));
}

}  // namespace yeoul
