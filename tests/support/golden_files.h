#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"

namespace yeoul::golden {

// A tensor of the golden data, widened: floats and integers up to 2^53 are exact.
struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  int64_t width() const;  // values per row
};

// All of these end the test program when the file is not what it should be.
std::map<std::string, Array> read_safetensors(const std::string& path);  // F32, I32, I64, U8, BF16
Array read_npy(const std::string& path);                                 // <f4, <f8, <i4
Json read_json(const std::string& path);
std::string read_text(const std::string& path);

// Root mean square of a - b over the standard deviation of b, as oracle/compare.py measures.
double relative_rms(const std::vector<float>& a, const std::vector<double>& b);

}  // namespace yeoul::golden
