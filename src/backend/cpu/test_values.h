#pragma once

// Random operands for the tests of this folder.

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/weight.h"
#include "base/counter_rng.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul::cpu {

// Uniform in [-1, 1) times `size`; a function of (seed, i).
inline float test_value(uint64_t seed, uint64_t i, double size = 1) {
  return static_cast<float>((2 * unit_interval(counter_bits(mix64(seed), i)) - 1) * size);
}

inline std::vector<float> test_floats(uint64_t seed, int64_t count, double size = 1) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = test_value(seed, i, size);
  return values;
}

inline std::vector<Bf16> test_bf16(uint64_t seed, int64_t count, double size = 1) {
  std::vector<Bf16> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = to_bf16(test_value(seed, i, size));
  return values;
}

inline std::vector<int32_t> first_rows(int64_t count) {
  std::vector<int32_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// A matrix with random codes and scales that owns its bytes.
class TestWeight {
 public:
  TestWeight(WeightFormat format, int64_t rows, int64_t cols, uint64_t seed)
      : format_(format), rows_(rows), cols_(cols) {
    const int64_t elements = rows * cols;
    switch (format) {
      case WeightFormat::kBf16:
        data_.resize(static_cast<size_t>(2 * elements));
        for (int64_t i = 0; i < elements; ++i) {
          const uint16_t bits = to_bf16(test_value(seed, static_cast<uint64_t>(i), 0.1)).bits;
          data_[static_cast<size_t>(2 * i)] = static_cast<uint8_t>(bits);
          data_[static_cast<size_t>(2 * i + 1)] = static_cast<uint8_t>(bits >> 8);
        }
        break;
      case WeightFormat::kFp8:
        fill(data_, elements, seed, [](uint64_t bits) {
          const auto code = static_cast<uint8_t>(bits);
          return (code & 0x7F) == 0x7F ? uint8_t{0} : code;  // no NaN
        });
        fill(scales_, (rows + 31) / 32 * ((cols + 31) / 32), seed + 1, scale_code);
        break;
      case WeightFormat::kFp4:
        fill(data_, elements / 2, seed, [](uint64_t bits) { return static_cast<uint8_t>(bits); });
        fill(scales_, rows * (cols / 32), seed + 1, scale_code);
        break;
    }
  }

  Weight weight() const {
    return {format_, reinterpret_cast<const std::byte*>(data_.data()), scales_.data(), rows_,
            cols_};
  }

  // Element by the definition of the format.
  double value(int64_t row, int64_t col) const {
    const auto at = static_cast<size_t>(row * cols_ + col);
    switch (format_) {
      case WeightFormat::kBf16: {
        const int bits = data_[2 * at] | data_[2 * at + 1] << 8;
        return static_cast<double>(to_float({static_cast<uint16_t>(bits)}));
      }
      case WeightFormat::kFp8: {
        const auto tile = static_cast<size_t>(row / 32 * ((cols_ + 31) / 32) + col / 32);
        return static_cast<double>(e4m3_to_float(data_[at]) * ue8m0_to_float(scales_[tile]));
      }
      case WeightFormat::kFp4: {
        const int pair = data_[at / 2];
        const int code = col % 2 == 0 ? pair & 15 : pair >> 4;
        const auto group = static_cast<size_t>(row * (cols_ / 32) + col / 32);
        return static_cast<double>(kE2m1Values[static_cast<size_t>(code)] *
                                   ue8m0_to_float(scales_[group]));
      }
    }
    return 0;
  }

 private:
  static uint8_t scale_code(uint64_t bits) { return static_cast<uint8_t>(117 + bits % 5); }
  template <typename Code>
  static void fill(std::vector<uint8_t>& bytes, int64_t count, uint64_t seed, const Code& code) {
    bytes.resize(static_cast<size_t>(count));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = code(counter_bits(mix64(seed), i));
  }

  WeightFormat format_;
  int64_t rows_, cols_;
  std::vector<uint8_t> data_, scales_;
};

}  // namespace yeoul::cpu
