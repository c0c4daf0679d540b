#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace yeoul {

// Everything a sequence needs to go on, bit for bit, somewhere else or later: what hand-over
// between machines and recovery use (the disk tier keeps pages and states apart). Plain data; the
// byte blobs are the model's own layout and opaque here.
struct SequenceImage {
  static constexpr uint32_t kVersion = 1;

  std::string model_identity;   // checkpoint hash
  std::string numerics_id;      // docs/numerics.md
  std::string prefill_mode;     // "exact"
  std::vector<TokenId> tokens;  // committed tokens; their number is the position of the next one
  std::vector<uint8_t> pages;   // compressed rows and index keys of positions 0 .. len-1
  std::vector<uint8_t> window;  // window rows per layer, oldest first
  std::vector<int64_t> window_first_valid;  // per layer: first position whose row is present
  std::vector<uint8_t> partial_pairs;       // FP32 (c, s) per ratio-2 source when the length is odd
  std::vector<uint8_t> draft_rows;          // DSpark rings; empty until drafting exists
  uint64_t seed = 0;
  int32_t choice = 0;

  friend bool operator==(const SequenceImage&, const SequenceImage&) = default;
};

// Little-endian, length-prefixed, ends with an XXH3-64 checksum. deserialize: kCorrupt for anything
// that is not such an image (truncated, flipped bits, hostile lengths), kUnsupported for a version.
std::vector<uint8_t> serialize(const SequenceImage& image);
Result<SequenceImage> deserialize_sequence_image(std::span<const uint8_t> bytes);

}  // namespace yeoul
