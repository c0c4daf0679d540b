#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace yeoul {

// Storage types of the checkpoint, by their safetensors tags.
enum class Dtype : uint8_t {
  kF32,
  kBf16,
  kF8E4m3,  // OCP e4m3fn
  kF8E8m0,  // power-of-two scale
  kI8,      // two FP4 e2m1 codes a byte, low nibble = even input index
};

constexpr int64_t bytes_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return 4;
    case Dtype::kBf16:
      return 2;
    case Dtype::kF8E4m3:
    case Dtype::kF8E8m0:
    case Dtype::kI8:
      return 1;
  }
  return 0;
}

// "F32", "BF16", "F8_E4M3", "F8_E8M0", "I8".
constexpr std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::kF32:
      return "F32";
    case Dtype::kBf16:
      return "BF16";
    case Dtype::kF8E4m3:
      return "F8_E4M3";
    case Dtype::kF8E8m0:
      return "F8_E8M0";
    case Dtype::kI8:
      return "I8";
  }
  return "?";
}

constexpr std::optional<Dtype> parse_dtype(std::string_view tag) {
  for (const Dtype dtype :
       {Dtype::kF32, Dtype::kBf16, Dtype::kF8E4m3, Dtype::kF8E8m0, Dtype::kI8}) {
    if (to_string(dtype) == tag) return dtype;
  }
  return std::nullopt;
}

}  // namespace yeoul
