#include "tensor/formats/fp8_e4m3.h"

#include <limits>

namespace yeoul {
namespace {

constexpr std::array<float, 256> make_values() {
  std::array<float, 256> values{};
  for (uint32_t code = 0; code < 128; ++code) {
    const uint32_t exponent = code >> 3, mantissa = code & 7;
    float value = 0;
    if (code == 127) {
      value = std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
      value = static_cast<float>(mantissa) * 0x1p-9f;
    } else {
      value = std::bit_cast<float>(((exponent + 127 - 7) << 23) | (mantissa << 20));
    }
    values[code] = value;
    values[code + 128] = -value;
  }
  return values;
}

}  // namespace

constexpr std::array<float, 256> kE4m3Values = make_values();

}  // namespace yeoul
