#include "io/npy.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace yeoul {

Result<NpyWriter> NpyWriter::create(const std::string& path, int64_t rows, int64_t columns) {
  Stream stream(std::fopen(path.c_str(), "wb"), std::fclose);
  if (stream == nullptr) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr size_t kPrefix = 10;  // magic, version, header length
  header.append((64 - (kPrefix + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  std::string start("\x93NUMPY\x01\x00", 8);
  start += static_cast<char>(header.size() & 0xFF);
  start += static_cast<char>(header.size() >> 8);
  start += header;
  if (std::fwrite(start.data(), 1, start.size(), stream.get()) != start.size()) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  return NpyWriter(path, std::move(stream), rows * columns);
}

Result<void> NpyWriter::append(std::span<const float> values) {
  written_ += static_cast<int64_t>(values.size());
  if (std::fwrite(values.data(), sizeof(float), values.size(), stream_.get()) != values.size()) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path_, std::strerror(errno)));
  }
  return {};
}

Result<void> NpyWriter::close() {
  if (written_ != expected_) {
    return fail(ErrorCode::kInternal,
                fmt::format("{}: {} values expected, {} written", path_, expected_, written_));
  }
  if (std::fclose(stream_.release()) != 0) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path_, std::strerror(errno)));
  }
  return {};
}

}  // namespace yeoul
