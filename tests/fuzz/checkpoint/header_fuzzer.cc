// A shard's header from hostile bytes, as a whole file and as the JSON text alone.

#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "checkpoint/safetensors.h"

namespace {

// Data bytes of the seeds that are JSON text alone.
constexpr uint64_t kSeedDataBytes = 64;

void check_header(std::string_view json, uint64_t data_bytes) {
  const auto tensors = yeoul::parse_header(json, data_bytes);
  if (!tensors) {
    CHECK(!tensors.error().message.empty(), "a refusal without words");
    return;
  }
  uint64_t covered = 0;
  for (const yeoul::HeaderTensor& tensor : *tensors) {
    CHECK(tensor.begin == covered && tensor.end >= covered, "{}: a gap", tensor.name);
    // Exact below 2^53, and the inputs are far smaller.
    auto num_bytes = static_cast<double>(yeoul::bytes_of(tensor.dtype));
    for (const int64_t dim : tensor.shape) num_bytes *= static_cast<double>(dim);
    CHECK(num_bytes == static_cast<double>(tensor.end - tensor.begin), "{}: size", tensor.name);
    covered = tensor.end;
  }
  CHECK(covered == data_bytes, "{} of {} bytes covered", covered, data_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check_header(bytes, kSeedDataBytes);
  if (size < yeoul::kHeaderLenBytes) return 0;
  const auto prefix = std::as_bytes(std::span(bytes)).first<yeoul::kHeaderLenBytes>();
  const auto header_len = yeoul::parse_header_len(prefix, size);
  if (!header_len) return 0;
  const std::string_view rest = bytes.substr(yeoul::kHeaderLenBytes);
  CHECK(*header_len <= rest.size(), "header of {} in {} bytes", *header_len, rest.size());
  check_header(rest.substr(0, *header_len), rest.size() - *header_len);
  return 0;
}
