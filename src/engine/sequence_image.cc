#include "engine/sequence_image.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <string_view>
#include <type_traits>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace yeoul {

namespace {

static_assert(std::endian::native == std::endian::little,
              "the image is written in the machine's byte order, which must be little-endian");

// Layout: magic, version u32, then the fields in the order of the struct, each list as its number
// of elements (u64) and the elements, and at last XXH3-64 of all bytes before it.
constexpr std::string_view kMagic = "YEOULSEQ";
constexpr size_t kHeaderBytes = kMagic.size() + sizeof(uint32_t);
constexpr size_t kChecksumBytes = sizeof(uint64_t);

class Writer {
 public:
  explicit Writer(std::vector<uint8_t>& out) : out_(out) {}

  template <typename T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes(&value, sizeof(value));
  }
  template <typename List>
  void list(const List& values) {
    number(static_cast<uint64_t>(values.size()));
    bytes(values.data(), values.size() * sizeof(values[0]));
  }
  void bytes(const void* data, size_t num_bytes) {
    if (num_bytes == 0) return;
    const auto* begin = static_cast<const uint8_t*>(data);
    out_.insert(out_.end(), begin, begin + num_bytes);
  }

 private:
  std::vector<uint8_t>& out_;
};

// Reads what Writer wrote; after a failure every further read fails.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  template <typename T>
  bool number(T& value) {
    return copy(&value, 1, sizeof(value));
  }
  // The length is checked against what is there before anything is allocated.
  template <typename List>
  bool list(List& values) {
    uint64_t size = 0;
    if (!number(size) || size > rest_.size() / sizeof(values[0])) return failed();
    values.resize(static_cast<size_t>(size));
    return copy(values.data(), values.size(), sizeof(values[0]));
  }
  bool at_end() const { return rest_.empty(); }

 private:
  bool copy(void* out, size_t count, size_t element_bytes) {
    const size_t num_bytes = count * element_bytes;
    if (num_bytes > rest_.size()) return failed();
    if (num_bytes > 0) std::memcpy(out, rest_.data(), num_bytes);
    rest_ = rest_.subspan(num_bytes);
    return true;
  }
  bool failed() {
    rest_ = {};
    return false;
  }

  std::span<const uint8_t> rest_;
};

uint64_t checksum(std::span<const uint8_t> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

std::vector<uint8_t> serialize(const SequenceImage& image) {
  std::vector<uint8_t> out;
  out.reserve(image.pages.size() + image.window.size() + image.tokens.size() * sizeof(TokenId) +
              image.partial_pairs.size() + image.draft_rows.size() + 1024);
  Writer writer(out);
  writer.bytes(kMagic.data(), kMagic.size());
  writer.number(SequenceImage::kVersion);
  writer.list(image.model_identity);
  writer.list(image.numerics_id);
  writer.list(image.prefill_mode);
  writer.list(image.tokens);
  writer.list(image.pages);
  writer.list(image.window);
  writer.list(image.window_first_valid);
  writer.list(image.partial_pairs);
  writer.list(image.draft_rows);
  writer.number(image.seed);
  writer.number(image.choice);
  writer.number(checksum(out));
  return out;
}

Result<SequenceImage> deserialize_sequence_image(std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes)
    return fail(ErrorCode::kCorrupt, fmt::format("sequence image: {} bytes, at least {} expected",
                                                 bytes.size(), kHeaderBytes + kChecksumBytes));
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(ErrorCode::kCorrupt, "sequence image: does not begin with its magic");
  const std::span<const uint8_t> body = bytes.first(bytes.size() - kChecksumBytes);
  uint64_t stored = 0;
  std::memcpy(&stored, bytes.data() + body.size(), kChecksumBytes);
  if (stored != checksum(body))
    return fail(ErrorCode::kCorrupt, fmt::format("sequence image: checksum {:016x} expected, "
                                                 "{:016x} found",
                                                 stored, checksum(body)));
  Reader reader(body.subspan(kMagic.size()));
  uint32_t version = 0;
  reader.number(version);
  if (version != SequenceImage::kVersion)
    return fail(ErrorCode::kUnsupported,
                fmt::format("sequence image: version {} expected, {} found",
                            SequenceImage::kVersion, version));
  SequenceImage image;
  const bool complete = reader.list(image.model_identity) && reader.list(image.numerics_id) &&
                        reader.list(image.prefill_mode) && reader.list(image.tokens) &&
                        reader.list(image.pages) && reader.list(image.window) &&
                        reader.list(image.window_first_valid) && reader.list(image.partial_pairs) &&
                        reader.list(image.draft_rows) && reader.number(image.seed) &&
                        reader.number(image.choice);
  if (!complete || !reader.at_end())
    return fail(ErrorCode::kCorrupt, complete ? "sequence image: bytes after the last field"
                                              : "sequence image: a length beyond the end");
  return image;
}

}  // namespace yeoul
