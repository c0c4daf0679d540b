#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/anonymous_memory.h"

namespace yeoul {

// Routed experts of all layers (DSpark stage s counts as layer num_hidden_layers + s). An expert is
// read from its shard when first asked for and stays resident; room for all of them is reserved as
// address space, used as they come. A failed read is the caller's to report, and is tried again
// next time. Thread-confined to the engine thread.
class ExpertStore {
 public:
  static Result<std::unique_ptr<ExpertStore>> create(std::shared_ptr<const Checkpoint> checkpoint);

  // kUnavailable with layer, expert and the cause.
  Result<const ExpertWeights*> fetch(int32_t layer, int32_t expert);

  // Bytes of all experts, and of those resident now.
  uint64_t total_bytes() const { return memory_.size(); }
  uint64_t resident_bytes() const { return resident_bytes_; }
  static uint64_t total_bytes(const Checkpoint& checkpoint);

 private:
  struct Part {
    const TensorEntry* entry = nullptr;
    std::byte* memory = nullptr;
  };
  struct Expert {
    Part parts[6];  // w1, w2, w3, each with its scale
    ExpertWeights weights;
    bool is_resident = false;
  };
  ExpertStore() = default;
  Expert& at(int32_t layer, int32_t expert);

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<std::vector<Expert>> layers_;
  AnonymousMemory memory_;
  uint64_t resident_bytes_ = 0;
};

}  // namespace yeoul
