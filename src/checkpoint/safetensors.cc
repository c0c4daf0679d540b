#include "checkpoint/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "checkpoint/header_parser.h"

namespace yeoul {

// Tensor bytes are little-endian and are used as they lie in the file.
static_assert(std::endian::native == std::endian::little,
              "Yeoul reads checkpoints on little-endian machines only");

namespace {

// Bytes of a tensor, or nothing when the product leaves 64 bits. An empty tensor has 0 bytes.
std::optional<uint64_t> count_bytes(Dtype dtype, const std::vector<int64_t>& shape) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  auto num_bytes = static_cast<uint64_t>(bytes_of(dtype));
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(num_bytes, static_cast<uint64_t>(dim), &num_bytes)) {
      return std::nullopt;
    }
  }
  return num_bytes;
}

Result<void> check_extent(const HeaderTensor& tensor, uint64_t data_bytes) {
  if (tensor.begin > tensor.end) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: data_offsets [{}, {}] run backwards",
                                                 tensor.name, tensor.begin, tensor.end));
  }
  if (tensor.end > data_bytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: data_offsets [{}, {}], but the file holds {} bytes of data "
                            "(truncated?)",
                            tensor.name, tensor.begin, tensor.end, data_bytes));
  }
  const std::optional<uint64_t> num_bytes = count_bytes(tensor.dtype, tensor.shape);
  if (num_bytes != tensor.end - tensor.begin) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("{}: {} [{}] takes {} bytes, data_offsets [{}, {}] hold {}",
                            tensor.name, to_string(tensor.dtype), fmt::join(tensor.shape, ", "),
                            num_bytes ? fmt::format("{}", *num_bytes) : "more than 2^64",
                            tensor.begin, tensor.end, tensor.end - tensor.begin));
  }
  return {};
}

Result<void> check_contiguous(const std::vector<HeaderTensor>& tensors, uint64_t data_bytes) {
  uint64_t covered = 0;
  const HeaderTensor* previous = nullptr;
  for (const HeaderTensor& tensor : tensors) {
    if (tensor.begin < covered) {
      return fail(ErrorCode::kCorrupt, fmt::format("{}: data_offsets [{}, {}] overlap {} [{}, {}]",
                                                   tensor.name, tensor.begin, tensor.end,
                                                   previous->name, previous->begin, previous->end));
    }
    if (tensor.begin > covered) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: data_offsets start at {}, but the data before it ends at {}",
                              tensor.name, tensor.begin, covered));
    }
    covered = tensor.end;
    previous = &tensor;
  }
  if (covered != data_bytes) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the tensors cover {} bytes, the file holds {} bytes of data", covered,
                            data_bytes));
  }
  return {};
}

tl::unexpected<Error> in_file(const File& file, Error error) {
  error.message = fmt::format("{}: {}", file.path(), error.message);
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Result<uint64_t> parse_header_len(std::span<const std::byte, kHeaderLenBytes> prefix,
                                  uint64_t file_bytes) {
  uint64_t header_len = 0;
  std::memcpy(&header_len, prefix.data(), kHeaderLenBytes);
  const uint64_t rest_bytes = file_bytes - kHeaderLenBytes;
  const auto fits = [&](uint64_t len) {
    return len >= 2 && len <= kHeaderBytesMax && len <= rest_bytes;
  };
  if (fits(header_len)) return header_len;
  const uint64_t swapped = __builtin_bswap64(header_len);
  if (fits(swapped)) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("the header length is big-endian ({} read backwards); little-endian "
                            "expected",
                            swapped));
  }
  if (header_len > kHeaderBytesMax || header_len < 2) {
    return fail(ErrorCode::kCorrupt, fmt::format("header length from 2 to {} expected, {} found",
                                                 kHeaderBytesMax, header_len));
  }
  return fail(ErrorCode::kCorrupt,
              fmt::format("a header of {} bytes expected, {} bytes left in the file (truncated?)",
                          header_len, rest_bytes));
}

Result<std::vector<HeaderTensor>> parse_header(std::string_view json, uint64_t data_bytes) {
  TRY_ASSIGN(std::vector<HeaderTensor> tensors, parse_header_entries(json));
  for (const HeaderTensor& tensor : tensors) TRY(check_extent(tensor, data_bytes));
  // The order of the entries is free. Empty tensors stand before the one that starts with them.
  std::sort(tensors.begin(), tensors.end(), [](const HeaderTensor& a, const HeaderTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  TRY(check_contiguous(tensors, data_bytes));
  return tensors;
}

Result<SafetensorsHeader> read_header(const File& file) {
  if (file.size() < kHeaderLenBytes) {
    return fail(ErrorCode::kCorrupt, fmt::format("{}: {} bytes expected at least, {} found",
                                                 file.path(), kHeaderLenBytes, file.size()));
  }
  std::array<std::byte, kHeaderLenBytes> prefix;
  TRY(file.read_at(0, prefix));
  const Result<uint64_t> header_len = parse_header_len(prefix, file.size());
  if (!header_len) return in_file(file, header_len.error());

  SafetensorsHeader header;
  header.data_start = kHeaderLenBytes + *header_len;
  header.json.resize(*header_len);
  TRY(file.read_at(kHeaderLenBytes, std::as_writable_bytes(std::span(header.json))));
  Result<std::vector<HeaderTensor>> tensors =
      parse_header(header.json, file.size() - header.data_start);
  if (!tensors) return in_file(file, std::move(tensors.error()));
  header.tensors = std::move(*tensors);
  return header;
}

}  // namespace yeoul
