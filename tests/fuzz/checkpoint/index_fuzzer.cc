// model.safetensors.index.json from hostile bytes: refused, or entries that point to plain files.

#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "checkpoint/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto index =
      yeoul::parse_shard_index(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!index) {
    CHECK(!index.error().message.empty(), "a refusal without words");
    return 0;
  }
  for (const yeoul::ShardIndex::Entry& entry : index->entries) {
    CHECK(entry.shard >= 0 && static_cast<size_t>(entry.shard) < index->shards.size(),
          "{}: shard {} of {}", entry.name, entry.shard, index->shards.size());
  }
  for (const std::string& shard : index->shards) {
    CHECK(!shard.empty() && shard.find('/') == std::string::npos && shard != "..", "{}", shard);
  }
  return 0;
}
