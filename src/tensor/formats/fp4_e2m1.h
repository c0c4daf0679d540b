#pragma once

// FP4 e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. Code 8 ("-0") decodes to 0 and is never
// produced. Two codes a byte, the low nibble is the even index.

#include <array>
#include <bit>
#include <cstdint>

namespace yeoul {

inline constexpr std::array<float, 16> kE2m1Values = {0,   0.5f,  1,   1.5f,  2,   3,   4,   6,
                                                      0.f, -0.5f, -1., -1.5f, -2., -3., -4., -6.};

// Twice the value, an integer: the form of exact integer dot products.
inline constexpr std::array<int8_t, 16> kE2m1Doubled = {0, 1,  2,  3,  4,  6,  8,  12,
                                                        0, -1, -2, -3, -4, -6, -8, -12};

// Nearest value, ties to the even code (0.25 down, 0.75 up, 1.25 down, ...), clamped to +-6. NaN
// gives code 7 (6), so that a broken row stays inside its own row.
inline uint8_t to_e2m1(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const float a = std::bit_cast<float>(u & 0x7FFFFFFFu);
  const int code = !(a <= 0.25f) + (a >= 0.75f || a != a) + !(a <= 1.25f) + (a >= 1.75f || a != a) +
                   !(a <= 2.5f) + (a >= 3.5f || a != a) + !(a <= 5.0f);
  return static_cast<uint8_t>(code | ((u >> 31) != 0 && code != 0 ? 8 : 0));
}

}  // namespace yeoul
