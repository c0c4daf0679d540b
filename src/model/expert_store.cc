#include "model/expert_store.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/fault.h"
#include "model/tensor_alignment.h"

namespace yeoul {
namespace {

std::string prefix_of(const ModelConfig& config, int32_t layer) {
  const int32_t layers = config.num_hidden_layers;
  return layer < layers ? fmt::format("layers.{}", layer) : fmt::format("mtp.{}", layer - layers);
}

int32_t experts_of(const ModelConfig& config, int32_t layer) {
  return layer < config.num_hidden_layers ? config.n_routed_experts
                                          : config.dspark_n_routed_experts;
}

}  // namespace

uint64_t ExpertStore::total_bytes(const Checkpoint& checkpoint) {
  uint64_t total = 0;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (entry.name.find(".ffn.experts.") != std::string::npos)
      total += aligned_bytes(entry.num_bytes);
  }
  return total;
}

Result<std::unique_ptr<ExpertStore>> ExpertStore::create(
    std::shared_ptr<const Checkpoint> checkpoint) {
  auto store = std::unique_ptr<ExpertStore>(new ExpertStore());
  const ModelConfig& config = checkpoint->config();
  TRY_ASSIGN(store->memory_, AnonymousMemory::reserve(total_bytes(*checkpoint)));
  std::byte* next = store->memory_.data();
  const int32_t layers = config.num_hidden_layers + config.num_nextn_predict_layers;
  for (int32_t layer = 0; layer < layers; ++layer) {
    std::vector<Expert>& experts = store->layers_.emplace_back();
    experts.resize(static_cast<size_t>(experts_of(config, layer)));
    for (size_t e = 0; e < experts.size(); ++e) {
      Weight* weights[3] = {&experts[e].weights.w1, &experts[e].weights.w2, &experts[e].weights.w3};
      for (size_t w = 0; w < 3; ++w) {
        const std::string name =
            fmt::format("{}.ffn.experts.{}.w{}", prefix_of(config, layer), e, w + 1);
        Part* parts = experts[e].parts + 2 * w;
        TRY_ASSIGN(parts[0].entry, checkpoint->find(name + ".weight"));
        TRY_ASSIGN(parts[1].entry, checkpoint->find(name + ".scale"));
        for (size_t p = 0; p < 2; ++p) {
          parts[p].memory = next;
          next += aligned_bytes(parts[p].entry->num_bytes);
        }
        *weights[w] = {WeightFormat::kFp4, parts[0].memory,
                       reinterpret_cast<const uint8_t*>(parts[1].memory), parts[0].entry->shape[0],
                       2 * parts[0].entry->shape[1]};
      }
    }
  }
  store->checkpoint_ = std::move(checkpoint);
  return store;
}

ExpertStore::Expert& ExpertStore::at(int32_t layer, int32_t expert) {
  DCHECK(layer >= 0 && static_cast<size_t>(layer) < layers_.size());
  std::vector<Expert>& experts = layers_[static_cast<size_t>(layer)];
  DCHECK(expert >= 0 && static_cast<size_t>(expert) < experts.size());
  return experts[static_cast<size_t>(expert)];
}

Result<const ExpertWeights*> ExpertStore::fetch(int32_t layer, int32_t expert) {
  Expert& entry = at(layer, expert);
  const uint64_t key = static_cast<uint64_t>(layer) << 32 | static_cast<uint64_t>(expert);
  if (fault_fires(FaultPoint::kWeightRead, key)) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("layer {} expert {}: read failed (injected)", layer, expert));
  }
  if (entry.is_resident) return &entry.weights;
  for (const Part& part : entry.parts) {
    if (auto read = checkpoint_->read(*part.entry, {part.memory, part.entry->num_bytes}); !read) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("layer {} expert {}: {}", layer, expert, read.error().message));
    }
    resident_bytes_ += part.entry->num_bytes;
  }
  entry.is_resident = true;
  return &entry.weights;
}

}  // namespace yeoul
