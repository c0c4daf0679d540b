#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "checkpoint/config.h"
#include "io/file.h"
#include "tensor/dtype.h"

namespace yeoul {

struct ShardIndex;

// Where one tensor lies.
struct TensorEntry {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;
  int32_t shard = 0;    // index into Checkpoint::shards()
  uint64_t offset = 0;  // of the first byte, from the start of the shard's file
  uint64_t num_bytes = 0;
};

// What the directory holds in all; the release: 96,085 tensors, 510,286,023,000 bytes.
struct CheckpointTotals {
  int64_t num_tensors = 0;
  uint64_t num_bytes = 0;
  std::unordered_map<std::string, uint64_t> bytes_by_dtype;  // by safetensors tag
  // Keys: the names of TensorOwner (expected_tensors.h): encoder, decoder, engram_tables, ...
  std::unordered_map<std::string, uint64_t> bytes_by_owner;
  std::unordered_map<std::string, int64_t> tensors_by_owner;
};

// A checkpoint in the released layout: config.json, model.safetensors.index.json, safetensors
// shards. open() has read every header and proved that each tensor the config calls for is there
// with its dtype and shape, that nothing overlaps and nothing is unknown. Immutable after
// construction.
class Checkpoint {
 public:
  static Result<std::shared_ptr<const Checkpoint>> open(const std::string& directory);

  const ModelConfig& config() const { return config_; }
  const std::string& directory() const { return directory_; }
  const std::vector<File>& shards() const { return shards_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const CheckpointTotals& totals() const { return totals_; }

  // kNotFound with the name and the number of shards searched.
  Result<const TensorEntry*> find(std::string_view name) const;

  // Reads a whole tensor, or `into.size()` bytes from byte `offset` of it. Errors name the tensor
  // too.
  Result<void> read(const TensorEntry& entry, std::span<std::byte> into) const;
  Result<void> read_at(const TensorEntry& entry, uint64_t offset, std::span<std::byte> into) const;

  // 32 hex digits: XXH3-128 over config.json, every header and sampled pages of every tensor
  // (identity.h). Equal for equal checkpoints wherever they lie. Computed on first use, which reads
  // up to 12 KiB a tensor; internally synchronized.
  Result<std::string> identity() const;

 private:
  Checkpoint() = default;
  Result<void> open_shards(const std::vector<std::string>& names);
  Result<void> match_index(const ShardIndex& index) const;
  Result<void> match_config();

  std::string directory_;
  ModelConfig config_;
  std::vector<File> shards_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string_view, size_t> by_name_;  // keys borrow from tensors_
  CheckpointTotals totals_;
  std::vector<std::string> stored_digests_;  // of config.json, then of every shard's header

  mutable std::mutex identity_mutex_;
  mutable std::optional<std::string> identity_;  // guarded by identity_mutex_
};

}  // namespace yeoul
