#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/engram_rows.h"
#include "model/expert_store.h"

namespace yeoul {

// A weight and the rule its inputs follow: owns what differs between quantizations, so that another
// one touches nothing else.
struct Linear {
  Weight weight;
  ActivationRule activation = ActivationRule::kAsIs;
};

// Fields carry the tensors' names (model.md section 2). All memory belongs to Weights.
struct HyperConnectionWeights {
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
};

struct CompressorWeights {
  const Bf16* norm = nullptr;
  Linear wkv;
  std::optional<Linear> wgate;  // ratio 2 only
};

struct IndexerWeights {
  Linear wq_b;
  Linear weights_proj;
  std::optional<Linear> wk;  // KV sources only
  const Bf16* k_norm = nullptr;
};

struct EngramWeights {
  Linear wkv;
  const Bf16* q_weight = nullptr;
  const Bf16* k_weight = nullptr;
};

struct LayerWeights {
  const Bf16* attn_norm = nullptr;
  const Bf16* ffn_norm = nullptr;
  HyperConnectionWeights hc_attn, hc_ffn;
  const float* attn_sink = nullptr;
  Linear wq_a, wq_b, wkv, wo_a, wo_b;
  const Bf16* q_norm = nullptr;
  const Bf16* kv_norm = nullptr;
  Linear gate;
  const float* gate_bias = nullptr;
  const float* gate_bias_vl = nullptr;
  ExpertWeights shared;
  std::optional<CompressorWeights> compressor;
  std::optional<IndexerWeights> indexer;
  std::optional<EngramWeights> engram;
};

// The DSpark stages; loaded and checked, used once drafting exists.
struct DraftWeights {
  std::vector<LayerWeights> stages;
  Linear main_proj;
  const Bf16* main_norm = nullptr;
  const Bf16* norm = nullptr;
  Linear markov_embed, markov_head, confidence_proj;
};

// Called with the bytes read so far and the bytes to read.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// What is in memory of the weights that need not be: routed experts and Engram tables.
struct WeightPlacement {
  ExpertStoreOptions experts;
  EngramRowsOptions engram;
};

// Resident weights of a checkpoint: everything except routed experts (ExpertStore), Engram tables
// (EngramRows) and the vision tower (not served yet). Immutable after construction.
class Weights {
 public:
  static Result<std::unique_ptr<Weights>> load(std::shared_ptr<const Checkpoint> checkpoint,
                                               const WeightPlacement& placement = {},
                                               const LoadProgress& progress = {});

  // Bytes load() keeps resident, experts apart.
  static uint64_t resident_bytes(const Checkpoint& checkpoint);

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelConfig& config() const { return checkpoint_->config(); }
  ExpertStore& experts() const { return *experts_; }
  EngramRows& engram_rows() const { return *engram_rows_; }

  Linear embed, head;
  const Bf16* norm = nullptr;
  std::vector<LayerWeights> layers;
  DraftWeights draft;

 private:
  friend class WeightsLoader;
  std::shared_ptr<const Checkpoint> checkpoint_;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> arena_{nullptr, nullptr};
  std::unique_ptr<ExpertStore> experts_;
  std::unique_ptr<EngramRows> engram_rows_;
};

}  // namespace yeoul
