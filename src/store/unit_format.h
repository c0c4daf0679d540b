#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "store/unit_ledger.h"

namespace yeoul {

// The bytes of a store, little-endian. A unit is two values: its blob (checksum, then the unit's
// bytes) and its record (last use, bytes of the blob, note, checksum). Each checksum covers the key
// too, so that bytes that belong to another unit are never taken for this one's.

// Bytes in front of a unit's own: XXH3-128 over key and unit.
constexpr size_t kBlobHeadBytes = 16;
using BlobHead = std::array<uint8_t, kBlobHeadBytes>;
BlobHead blob_head(const BlobKey& key, std::span<const uint8_t> unit);

// The unit in `blob`, borrowed. kCorrupt when the checksum does not fit.
Result<std::span<const uint8_t>> unit_of_blob(const BlobKey& key, std::span<const uint8_t> blob);

std::string format_record(const UnitEntry& entry);
Result<UnitEntry> parse_record(const BlobKey& key, std::string_view record);

// The file that marks a folder as a store and says its format. A program reads every format up to
// its own kStoreFormat; it refuses a newer one, because it could not keep its promises.
constexpr int kStoreFormat = 1;
std::string format_marker();
// kCorrupt when it is no marker, kUnsupported when its format is newer than kStoreFormat.
Result<int> parse_marker(std::string_view marker);

}  // namespace yeoul
