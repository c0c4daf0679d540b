#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/range_reader.h"

namespace yeoul {

// Where each routed expert lies in its shard, and where its bytes go in a slot of memory. Tensors
// begin anywhere in a shard, reads past the page cache at multiples of kReadAlignment: a slot takes
// the aligned ranges that cover the expert's six tensors, neighbours in the file as one range.
// Immutable after construction; borrows the checkpoint.
class ExpertLayout {
 public:
  // DSpark stage s counts as layer num_hidden_layers + s.
  static Result<ExpertLayout> create(const Checkpoint& checkpoint);

  std::span<const int32_t> experts_of_layer() const { return experts_of_layer_; }
  int32_t num_experts() const { return static_cast<int32_t>(experts_.size()); }
  // Of a slot that can hold any expert, a multiple of kReadAlignment.
  uint64_t slot_bytes() const { return slot_bytes_; }
  // Of all tensors of one expert; all have the same.
  uint64_t expert_bytes() const { return expert_bytes_; }

  struct Range {
    int32_t shard = 0;
    AlignedRange bytes;       // of the shard
    uint64_t num_needed = 0;  // from bytes.offset to the end of the last tensor
    uint64_t place = 0;       // in the slot
  };
  // Experts are numbered through all layers.
  std::span<const Range> ranges(int32_t expert) const;
  // The matrices of the expert in a slot that was filled by its ranges.
  ExpertWeights weights(int32_t expert, const std::byte* slot) const;

 private:
  static constexpr size_t kTensors = 6;  // w1, w2, w3, each with its scale
  struct Expert {
    std::array<const TensorEntry*, kTensors> tensors{};
    std::array<uint64_t, kTensors> places{};  // of the tensors in the slot
    std::array<Range, kTensors> ranges;
    size_t num_ranges = 0;
  };
  static uint64_t lay_out(Expert& expert);

  std::vector<int32_t> experts_of_layer_;
  std::vector<Expert> experts_;
  uint64_t slot_bytes_ = 0;
  uint64_t expert_bytes_ = 0;
};

}  // namespace yeoul
