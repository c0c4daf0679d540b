#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/expected_tensors.h"

namespace yeoul {

struct PlannedShard {
  std::string file_name;
  std::vector<ExpectedTensor> tensors;  // in the order of their bytes
};

// A checkpoint to be written. Plain data: whoever wants another layout edits it.
struct CheckpointPlan {
  std::string config_json;
  std::string tokenizer_json;  // empty: none is written
  std::vector<PlannedShard> shards;

  uint64_t num_bytes() const;  // of all tensors
};

// Every tensor of `config`, laid out like the release: embedding, head with the final norm, a shard
// a layer, vision where there is one, a shard a draft stage, an Engram table (with its layer's
// other Engram tensors) a shard. 48 shards for the release.
CheckpointPlan plan_checkpoint(const ModelConfig& config);

// Fills `into` with the bytes of `tensor` from `offset` on. Called from several threads at once;
// pieces start at multiples of 4 MiB.
using TensorFiller =
    std::function<void(const ExpectedTensor& tensor, uint64_t offset, std::span<std::byte> into)>;

struct WriteOptions {
  TensorFiller fill;  // none: the tensors are holes of the files and read as zeros
  int num_threads = 1;
  // Called now and then from the calling thread.
  std::function<void(uint64_t done_bytes, uint64_t total_bytes)> on_progress;
};

// Writes shards, model.safetensors.index.json, tokenizer.json and, last, config.json into
// `directory`, which is made if need be: a folder without config.json is one whose writing did not
// end. Blocks. kInvalidArgument when the folder holds a config.json already, kUnavailable with the
// system's reason when it cannot be written (no space, ...).
Result<void> write_checkpoint(const CheckpointPlan& plan, const std::string& directory,
                              const WriteOptions& options);

}  // namespace yeoul
