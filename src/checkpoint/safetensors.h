#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file.h"
#include "tensor/dtype.h"

namespace yeoul {

// The safetensors container, one shard a file:
//   8 bytes   length of the header, little-endian
//   header    JSON object: tensor name -> {"dtype", "shape", "data_offsets": [begin, end)}
//   data      the tensors' bytes, little-endian, without gaps
// Everything here treats the bytes as hostile: no number is believed before it is checked.

constexpr size_t kHeaderLenBytes = 8;
constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit

struct HeaderTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // bytes from the start of the data
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<HeaderTensor> tensors;  // ascending by place in the data
  uint64_t data_start = 0;            // of the data, from the start of the file
  std::string json;                   // the header's bytes as stored
};

// The length of the header of a file of `file_bytes` that starts with `prefix`.
Result<uint64_t> parse_header_len(std::span<const std::byte, kHeaderLenBytes> prefix,
                                  uint64_t file_bytes);

// The tensors of a header whose data part is `data_bytes` long. Proves: each tensor's shape times
// its dtype is the length of its byte range, and the ranges cover the data without gap or overlap.
Result<std::vector<HeaderTensor>> parse_header(std::string_view json, uint64_t data_bytes);

// Both, for a file. Errors start with its path.
Result<SafetensorsHeader> read_header(const File& file);

}  // namespace yeoul
