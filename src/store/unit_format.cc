#include "store/unit_format.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace yeoul {

namespace {

static_assert(std::endian::native == std::endian::little,
              "a store is written in the machine's byte order, which must be little-endian");

constexpr std::string_view kMarkerHead = "yeoul store\nformat ";
constexpr size_t kRecordHeadBytes = 16;
constexpr size_t kRecordSumBytes = 8;

Error corrupt(const char* what, const BlobKey& key, size_t num_bytes) {
  return {ErrorCode::kCorrupt, fmt::format("store: unit {:016x}{:016x}: {} of {} bytes does not "
                                           "fit its checksum",
                                           key.high, key.low, what, num_bytes)};
}

}  // namespace

BlobHead blob_head(const BlobKey& key, std::span<const uint8_t> unit) {
  // The key goes in as the seed of a second sum over the first.
  const XXH128_hash_t content = XXH3_128bits(unit.data(), unit.size());
  const std::array<uint64_t, 5> parts = {key.high, key.low, content.high64, content.low64,
                                         unit.size()};
  const XXH128_hash_t sum = XXH3_128bits(parts.data(), sizeof(parts));
  BlobHead head;
  std::memcpy(head.data(), &sum.low64, 8);
  std::memcpy(head.data() + 8, &sum.high64, 8);
  return head;
}

Result<std::span<const uint8_t>> unit_of_blob(const BlobKey& key, std::span<const uint8_t> blob) {
  if (blob.size() < kBlobHeadBytes) return tl::unexpected(corrupt("a blob", key, blob.size()));
  const std::span<const uint8_t> unit = blob.subspan(kBlobHeadBytes);
  const BlobHead head = blob_head(key, unit);
  if (std::memcmp(head.data(), blob.data(), kBlobHeadBytes) != 0)
    return tl::unexpected(corrupt("a blob", key, blob.size()));
  return unit;
}

std::string format_record(const UnitEntry& entry) {
  std::string record;
  const auto append = [&record](const void* data, size_t size) {
    record.append(static_cast<const char*>(data), size);
  };
  append(&entry.last_use, 8);
  append(&entry.bytes, 8);
  append(entry.note.data(), entry.note.size());
  const uint64_t sum =
      XXH3_64bits_withSeed(record.data(), record.size(), mix64(entry.key.high) ^ entry.key.low);
  append(&sum, kRecordSumBytes);
  return record;
}

Result<UnitEntry> parse_record(const BlobKey& key, std::string_view record) {
  if (record.size() < kRecordHeadBytes + kRecordSumBytes)
    return tl::unexpected(corrupt("a record", key, record.size()));
  const std::string_view body = record.substr(0, record.size() - kRecordSumBytes);
  uint64_t sum = 0;
  std::memcpy(&sum, record.data() + body.size(), kRecordSumBytes);
  if (sum != XXH3_64bits_withSeed(body.data(), body.size(), mix64(key.high) ^ key.low))
    return tl::unexpected(corrupt("a record", key, record.size()));
  UnitEntry entry = {.key = key};
  std::memcpy(&entry.last_use, body.data(), 8);
  std::memcpy(&entry.bytes, body.data() + 8, 8);
  entry.recorded_use = entry.last_use;
  const std::string_view note = body.substr(kRecordHeadBytes);
  entry.note.assign(note.begin(), note.end());
  return entry;
}

std::string format_marker() {
  return fmt::format("{}{}\n", kMarkerHead, kStoreFormat);
}

Result<int> parse_marker(std::string_view marker) {
  int format = 0;
  const bool has_head = marker.starts_with(kMarkerHead) && marker.ends_with('\n');
  const char* begin = has_head ? marker.data() + kMarkerHead.size() : nullptr;
  const char* end = has_head ? marker.data() + marker.size() - 1 : nullptr;
  const auto [parsed, error] = std::from_chars(begin, end, format);
  if (!has_head || error != std::errc{} || parsed != end || format < 1)
    return fail(ErrorCode::kCorrupt, "store: its marker file is damaged; remove the folder");
  if (format > kStoreFormat)
    return fail(ErrorCode::kUnsupported,
                fmt::format("store: format {} found, this program knows formats up to {}; use "
                            "another folder or the newer program",
                            format, kStoreFormat));
  return format;
}

}  // namespace yeoul
