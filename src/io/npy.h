#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace yeoul {

// Writes a float32 matrix row by row in NumPy's .npy format, version 1.0, little-endian, C order.
// Thread-confined.
class NpyWriter {
 public:
  // The file is created or replaced; it must get exactly rows * columns values before close().
  static Result<NpyWriter> create(const std::string& path, int64_t rows, int64_t columns);

  // Appends whole rows or parts of rows.
  Result<void> append(std::span<const float> values);

  // kInternal when the number of values is not what create() announced.
  Result<void> close();

 private:
  using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  NpyWriter(std::string path, Stream stream, int64_t expected)
      : path_(std::move(path)), stream_(std::move(stream)), expected_(expected) {}
  std::string path_;
  Stream stream_;
  int64_t expected_;
  int64_t written_ = 0;
};

}  // namespace yeoul
