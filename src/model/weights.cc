#include "model/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "model/tensor_alignment.h"

namespace yeoul {
namespace {

// Not held by Weights: experts have their store, tables stay in the file, images are not served
// yet.
bool is_resident(std::string_view name) {
  const auto starts = [&](std::string_view prefix) {
    return name.substr(0, prefix.size()) == prefix;
  };
  return name.find(".ffn.experts.") == std::string_view::npos &&
         name.find(".engram.embed.") == std::string_view::npos && !starts("vision.") &&
         !starts("aligner.") && !starts("image_");
}

}  // namespace

// Binds tensor names to fields and reads them into one arena.
class WeightsLoader {
 public:
  WeightsLoader(Weights& weights, const LoadProgress& progress)
      : weights_(weights),
        checkpoint_(*weights.checkpoint_),
        config_(checkpoint_.config()),
        progress_(progress) {}

  Result<void> load() {
    arena_len_ = Weights::resident_bytes(checkpoint_);
    weights_.arena_ = {
        static_cast<std::byte*>(std::aligned_alloc(4096, (arena_len_ + 4095) / 4096 * 4096)),
        [](std::byte* memory) { std::free(memory); }};
    if (weights_.arena_ == nullptr) {
      return fail(ErrorCode::kResourceExhausted,
                  fmt::format("{} bytes for the resident weights", arena_len_));
    }
    TRY(bf16_matrix("embed", weights_.embed));
    TRY(bf16_matrix("head", weights_.head));
    TRY(vector("norm.weight", weights_.norm));
    for (int32_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      TRY(backbone_layer(layer, weights_.layers.emplace_back()));
    }
    TRY(draft_stages());
    CHECK(used_ == arena_len_, "resident weights: {} bytes planned, {} bound", arena_len_, used_);
    return {};
  }

 private:
  Result<std::byte*> tensor(const std::string& name) {
    TRY_ASSIGN(const TensorEntry* entry, checkpoint_.find(name));
    std::byte* memory = weights_.arena_.get() + used_;
    used_ += aligned_bytes(entry->num_bytes);
    CHECK(used_ <= arena_len_);
    TRY(checkpoint_.read(*entry, {memory, entry->num_bytes}));
    if (progress_) progress_(used_, arena_len_);
    return memory;
  }

  template <typename Value>
  Result<void> vector(const std::string& name, const Value*& field) {
    TRY_ASSIGN(const std::byte* memory, tensor(name));
    field = reinterpret_cast<const Value*>(memory);
    return {};
  }

  Result<void> bf16_matrix(const std::string& name, Linear& field) {
    TRY_ASSIGN(const std::byte* memory, tensor(name + ".weight"));
    TRY_ASSIGN(const TensorEntry* entry, checkpoint_.find(name + ".weight"));
    field = {{WeightFormat::kBf16, memory, nullptr, entry->shape[0], entry->shape[1]},
             ActivationRule::kAsIs};
    return {};
  }

  Result<void> fp8_matrix(const std::string& name, Linear& field,
                          ActivationRule rule = ActivationRule::kFp8) {
    TRY_ASSIGN(const std::byte* memory, tensor(name + ".weight"));
    TRY_ASSIGN(const std::byte* scales, tensor(name + ".scale"));
    TRY_ASSIGN(const TensorEntry* entry, checkpoint_.find(name + ".weight"));
    field = {{WeightFormat::kFp8, memory, reinterpret_cast<const uint8_t*>(scales), entry->shape[0],
              entry->shape[1]},
             rule};
    return {};
  }

  Result<void> hyper_connection(const std::string& name, HyperConnectionWeights& field) {
    TRY(vector(name + "_fn", field.fn));
    TRY(vector(name + "_base", field.base));
    return vector(name + "_scale", field.scale);
  }

  // What backbone layers and draft stages share (model.md section 2.4).
  Result<void> block(const std::string& p, LayerWeights& layer) {
    TRY(vector(p + "attn_norm.weight", layer.attn_norm));
    TRY(vector(p + "ffn_norm.weight", layer.ffn_norm));
    TRY(hyper_connection(p + "hc_attn", layer.hc_attn));
    TRY(hyper_connection(p + "hc_ffn", layer.hc_ffn));
    TRY(vector(p + "attn.attn_sink", layer.attn_sink));
    TRY(fp8_matrix(p + "attn.wq_a", layer.wq_a));
    TRY(vector(p + "attn.q_norm.weight", layer.q_norm));
    TRY(fp8_matrix(p + "attn.wq_b", layer.wq_b));
    TRY(fp8_matrix(p + "attn.wkv", layer.wkv));
    TRY(vector(p + "attn.kv_norm.weight", layer.kv_norm));
    // The release multiplies wo_a in BF16 without rounding its inputs to FP8 (model.md U10).
    TRY(fp8_matrix(p + "attn.wo_a", layer.wo_a, ActivationRule::kAsIs));
    TRY(fp8_matrix(p + "attn.wo_b", layer.wo_b));
    TRY(bf16_matrix(p + "ffn.gate", layer.gate));
    TRY(vector(p + "ffn.gate.bias", layer.gate_bias));
    TRY(vector(p + "ffn.gate.bias_vl", layer.gate_bias_vl));
    Linear w1, w2, w3;
    TRY(fp8_matrix(p + "ffn.shared_experts.w1", w1));
    TRY(fp8_matrix(p + "ffn.shared_experts.w2", w2));
    TRY(fp8_matrix(p + "ffn.shared_experts.w3", w3));
    layer.shared = {w1.weight, w2.weight, w3.weight};
    return {};
  }

  Result<void> backbone_layer(int32_t index, LayerWeights& layer) {
    const std::string p = fmt::format("layers.{}.", index);
    TRY(block(p, layer));
    const bool kv_source = contains(config_.kv_source_layer_ids, index);
    if (kv_source) {
      CompressorWeights& compressor = layer.compressor.emplace();
      TRY(vector(p + "attn.compressor.norm.weight", compressor.norm));
      TRY(bf16_matrix(p + "attn.compressor.wkv", compressor.wkv));
      if (config_.compress_ratios[static_cast<size_t>(index)] == 2) {
        TRY(bf16_matrix(p + "attn.compressor.wgate", compressor.wgate.emplace()));
      }
    }
    if (contains(config_.index_source_layer_ids, index)) {
      IndexerWeights& indexer = layer.indexer.emplace();
      TRY(fp8_matrix(p + "attn.indexer.wq_b", indexer.wq_b));
      TRY(bf16_matrix(p + "attn.indexer.weights_proj", indexer.weights_proj));
      if (kv_source) {
        TRY(bf16_matrix(p + "attn.indexer.wk", indexer.wk.emplace()));
        TRY(vector(p + "attn.indexer.k_norm.weight", indexer.k_norm));
      }
    }
    if (contains(config_.engram_layer_ids, index)) {
      EngramWeights& engram = layer.engram.emplace();
      TRY(fp8_matrix(p + "engram.wkv", engram.wkv));
      TRY(vector(p + "engram.q_weight", engram.q_weight));
      TRY(vector(p + "engram.k_weight", engram.k_weight));
    }
    return {};
  }

  Result<void> draft_stages() {
    const int32_t stages = config_.num_nextn_predict_layers;
    if (stages == 0) return {};
    DraftWeights& draft = weights_.draft;
    for (int32_t s = 0; s < stages; ++s) {
      TRY(block(fmt::format("mtp.{}.", s), draft.stages.emplace_back()));
    }
    const std::string last = fmt::format("mtp.{}.", stages - 1);
    TRY(fp8_matrix("mtp.0.main_proj", draft.main_proj));
    TRY(vector("mtp.0.main_norm.weight", draft.main_norm));
    TRY(vector(last + "norm.weight", draft.norm));
    TRY(bf16_matrix(last + "markov_head.embed", draft.markov_embed));
    TRY(bf16_matrix(last + "markov_head.head", draft.markov_head));
    return bf16_matrix(last + "confidence_head.proj", draft.confidence_proj);
  }

  static bool contains(const std::vector<int32_t>& list, int32_t value) {
    return std::find(list.begin(), list.end(), value) != list.end();
  }

  Weights& weights_;
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const LoadProgress& progress_;
  uint64_t arena_len_ = 0;
  uint64_t used_ = 0;
};

uint64_t Weights::resident_bytes(const Checkpoint& checkpoint) {
  uint64_t total = 0;
  for (const TensorEntry& entry : checkpoint.tensors()) {
    if (is_resident(entry.name)) total += aligned_bytes(entry.num_bytes);
  }
  return total;
}

Result<std::unique_ptr<Weights>> Weights::load(std::shared_ptr<const Checkpoint> checkpoint,
                                               const WeightPlacement& placement,
                                               const LoadProgress& progress) {
  auto weights = std::make_unique<Weights>();
  weights->checkpoint_ = std::move(checkpoint);
  TRY_ASSIGN(weights->experts_, ExpertStore::create(weights->checkpoint_, placement.experts));
  TRY_ASSIGN(weights->engram_rows_, EngramRows::create(weights->checkpoint_, placement.engram));
  TRY(WeightsLoader(*weights, progress).load());
  return weights;
}

}  // namespace yeoul
