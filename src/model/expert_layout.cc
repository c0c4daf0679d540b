#include "model/expert_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace yeoul {
namespace {

// Bytes between two tensors that are read along rather than asked for apart.
constexpr uint64_t kGapMax = 16 << 10;

std::string prefix_of(const ModelConfig& config, int32_t layer) {
  const int32_t layers = config.num_hidden_layers;
  return layer < layers ? fmt::format("layers.{}", layer) : fmt::format("mtp.{}", layer - layers);
}

int32_t experts_of(const ModelConfig& config, int32_t layer) {
  return layer < config.num_hidden_layers ? config.n_routed_experts
                                          : config.dspark_n_routed_experts;
}

}  // namespace

Result<ExpertLayout> ExpertLayout::create(const Checkpoint& checkpoint) {
  ExpertLayout layout;
  const ModelConfig& config = checkpoint.config();
  const int32_t layers = config.num_hidden_layers + config.num_nextn_predict_layers;
  for (int32_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = prefix_of(config, layer);
    layout.experts_of_layer_.push_back(experts_of(config, layer));
    for (int32_t e = 0; e < layout.experts_of_layer_.back(); ++e) {
      Expert& expert = layout.experts_.emplace_back();
      uint64_t num_bytes = 0;
      for (size_t t = 0; t < kTensors; ++t) {
        TRY_ASSIGN(expert.tensors[t],
                   checkpoint.find(fmt::format("{}.ffn.experts.{}.w{}.{}", prefix, e, t / 2 + 1,
                                               t % 2 == 0 ? "weight" : "scale")));
        num_bytes += expert.tensors[t]->num_bytes;
      }
      layout.expert_bytes_ = std::max(layout.expert_bytes_, num_bytes);
      layout.slot_bytes_ = std::max(layout.slot_bytes_, lay_out(expert));
    }
  }
  return layout;
}

// Fills ranges and places; returns the bytes of the slot.
uint64_t ExpertLayout::lay_out(Expert& expert) {
  std::array<size_t, kTensors> order;
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const TensorEntry &left = *expert.tensors[a], &right = *expert.tensors[b];
    return left.shard != right.shard ? left.shard < right.shard : left.offset < right.offset;
  });
  uint64_t slot_bytes = 0;
  for (size_t first = 0; first < kTensors;) {
    const TensorEntry& begin = *expert.tensors[order[first]];
    uint64_t end = begin.offset + begin.num_bytes;
    size_t last = first + 1;
    for (; last < kTensors; ++last) {
      const TensorEntry& next = *expert.tensors[order[last]];
      if (next.shard != begin.shard || next.offset > end + kGapMax) break;
      end = next.offset + next.num_bytes;
    }
    Range& range = expert.ranges[expert.num_ranges++];
    range.shard = begin.shard;
    range.bytes = covering(begin.offset, end - begin.offset);
    range.num_needed = end - range.bytes.offset;
    range.place = slot_bytes;
    slot_bytes += range.bytes.num_bytes;
    for (; first < last; ++first) {
      expert.places[order[first]] =
          range.place + expert.tensors[order[first]]->offset - range.bytes.offset;
    }
  }
  return slot_bytes;
}

std::span<const ExpertLayout::Range> ExpertLayout::ranges(int32_t expert) const {
  const Expert& of = experts_[static_cast<size_t>(expert)];
  return std::span(of.ranges).first(of.num_ranges);
}

ExpertWeights ExpertLayout::weights(int32_t expert, const std::byte* slot) const {
  const Expert& of = experts_[static_cast<size_t>(expert)];
  const auto matrix = [&](size_t w) {
    return Weight{WeightFormat::kFp4, slot + of.places[2 * w],
                  reinterpret_cast<const uint8_t*>(slot + of.places[2 * w + 1]),
                  of.tensors[2 * w]->shape[0], 2 * of.tensors[2 * w]->shape[1]};
  };
  return {matrix(0), matrix(1), matrix(2)};
}

}  // namespace yeoul
