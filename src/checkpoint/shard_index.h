#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace yeoul {

// model.safetensors.index.json: which shard holds which tensor. Plain data.
struct ShardIndex {
  struct Entry {
    std::string name;
    int32_t shard = 0;  // index into `shards`
  };
  std::vector<Entry> entries;
  std::vector<std::string> shards;     // file names, ascending
  std::optional<uint64_t> total_size;  // metadata.total_size: bytes of all tensors
};

// kCorrupt for malformed JSON, a name listed twice, or a shard name that is not a plain file name
// (a path could lead out of the checkpoint's directory).
Result<ShardIndex> parse_shard_index(std::string_view json);

}  // namespace yeoul
