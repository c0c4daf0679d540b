#include "checkpoint/expected_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace yeoul {
namespace {

constexpr int64_t kTile = 32;   // FP8 weights: one scale a 32 x 32 tile
constexpr int64_t kGroup = 32;  // FP4 weights and Engram rows: one scale per 32 inputs of a row

constexpr int64_t tiles(int64_t width) {
  return (width + kTile - 1) / kTile;
}
static_assert(tiles(1) == 1 && tiles(32) == 1 && tiles(33) == 2);

bool contains(const std::vector<int32_t>& list, int32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Writes the table in the order of the model: globals, layers, DSpark stages, vision.
class Table {
 public:
  explicit Table(const ModelConfig& config) : config_(config) {}

  void add_globals();
  void add_layer(int32_t layer);
  void add_dspark();
  void add_vision(const VisionConfig& vision);

  std::vector<ExpectedTensor> tensors;

 private:
  void add(std::string name, Dtype dtype, std::vector<int64_t> shape) {
    tensors.push_back({std::move(name), dtype, std::move(shape), owner_});
  }
  void add_bf16(std::string name, std::vector<int64_t> shape) {
    add(std::move(name), Dtype::kBf16, std::move(shape));
  }
  // `name`.weight [out, in] with `name`.scale, a byte a tile.
  void add_fp8(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", Dtype::kF8E4m3, {out, in});
    add(name + ".scale", Dtype::kF8E8m0, {tiles(out), tiles(in)});
  }
  // Two inputs a byte, and a scale byte per 32 inputs.
  void add_fp4(const std::string& name, int64_t out, int64_t in) {
    add(name + ".weight", Dtype::kI8, {out, in / 2});
    add(name + ".scale", Dtype::kF8E8m0, {out, in / kGroup});
  }

  void add_block(const std::string& prefix, int32_t num_experts);
  void add_hyper_connection(const std::string& prefix);
  void add_attention(const std::string& prefix);
  void add_moe(const std::string& prefix, int32_t num_experts);
  void add_kv_source(const std::string& prefix, int32_t ratio);
  void add_index_source(const std::string& prefix);
  void add_engram(const std::string& prefix, int64_t num_rows);

  const ModelConfig& config_;
  TensorOwner owner_ = TensorOwner::kEmbedHeadNorm;
};

void Table::add_globals() {
  owner_ = TensorOwner::kEmbedHeadNorm;
  add_bf16("embed.weight", {config_.vocab_size, config_.hidden_size});
  add_bf16("norm.weight", {config_.hidden_size});
  add_bf16("head.weight", {config_.vocab_size, config_.hidden_size});
}

void Table::add_layer(int32_t layer) {
  const std::string prefix = fmt::format("layers.{}.", layer);
  owner_ = layer < config_.decoder_start() ? TensorOwner::kEncoder : TensorOwner::kDecoder;
  add_block(prefix, config_.n_routed_experts);
  if (contains(config_.kv_source_layer_ids, layer)) {
    add_kv_source(prefix, config_.compress_ratios[static_cast<size_t>(layer)]);
  }
  if (contains(config_.index_source_layer_ids, layer)) add_index_source(prefix);
  for (size_t i = 0; i < config_.engram_layer_ids.size(); ++i) {
    if (config_.engram_layer_ids[i] == layer) {
      add_engram(prefix + "engram.", config_.engram_num_embeddings[i]);
    }
  }
}

// What every layer and every DSpark stage has.
void Table::add_block(const std::string& prefix, int32_t num_experts) {
  add_bf16(prefix + "attn_norm.weight", {config_.hidden_size});
  add_bf16(prefix + "ffn_norm.weight", {config_.hidden_size});
  add_hyper_connection(prefix + "hc_attn_");
  add_hyper_connection(prefix + "hc_ffn_");
  add_attention(prefix + "attn.");
  add_moe(prefix + "ffn.", num_experts);
}

void Table::add_hyper_connection(const std::string& prefix) {
  const int64_t streams = config_.hc_mult;
  const int64_t num_mixes = streams + streams + streams * streams;  // pre, post, combination
  add(prefix + "fn", Dtype::kF32, {num_mixes, streams * config_.hidden_size});
  add(prefix + "base", Dtype::kF32, {num_mixes});
  add(prefix + "scale", Dtype::kF32, {3});
}

void Table::add_attention(const std::string& prefix) {
  const int64_t hidden = config_.hidden_size;
  const int64_t heads_width = int64_t{config_.num_attention_heads} * config_.head_dim;
  const int64_t groups_width = int64_t{config_.o_groups} * config_.o_lora_rank;
  add(prefix + "attn_sink", Dtype::kF32, {config_.num_attention_heads});
  add_fp8(prefix + "wq_a", config_.q_lora_rank, hidden);
  add_bf16(prefix + "q_norm.weight", {config_.q_lora_rank});
  add_fp8(prefix + "wq_b", heads_width, config_.q_lora_rank);
  add_fp8(prefix + "wkv", config_.head_dim, hidden);
  add_bf16(prefix + "kv_norm.weight", {config_.head_dim});
  add_fp8(prefix + "wo_a", groups_width, heads_width / config_.o_groups);
  add_fp8(prefix + "wo_b", hidden, groups_width);
}

void Table::add_moe(const std::string& prefix, int32_t num_experts) {
  const int64_t hidden = config_.hidden_size;
  const int64_t inner = config_.moe_intermediate_size;
  add_bf16(prefix + "gate.weight", {num_experts, hidden});
  add(prefix + "gate.bias", Dtype::kF32, {num_experts});
  add(prefix + "gate.bias_vl", Dtype::kF32, {num_experts});
  for (int32_t expert = 0; expert < num_experts; ++expert) {
    const std::string expert_prefix = fmt::format("{}experts.{}.", prefix, expert);
    add_fp4(expert_prefix + "w1", inner, hidden);
    add_fp4(expert_prefix + "w3", inner, hidden);
    add_fp4(expert_prefix + "w2", hidden, inner);
  }
  add_fp8(prefix + "shared_experts.w1", inner, hidden);
  add_fp8(prefix + "shared_experts.w3", inner, hidden);
  add_fp8(prefix + "shared_experts.w2", hidden, inner);
}

void Table::add_kv_source(const std::string& prefix, int32_t ratio) {
  const int64_t hidden = config_.hidden_size;
  add_bf16(prefix + "attn.compressor.norm.weight", {config_.head_dim});
  add_bf16(prefix + "attn.compressor.wkv.weight", {config_.head_dim, hidden});
  // A ratio-1 compressor has nothing to weigh against each other.
  if (ratio > 1) add_bf16(prefix + "attn.compressor.wgate.weight", {config_.head_dim, hidden});
  add_bf16(prefix + "attn.indexer.wk.weight", {config_.index_head_dim, config_.head_dim});
  add_bf16(prefix + "attn.indexer.k_norm.weight", {config_.index_head_dim});
}

void Table::add_index_source(const std::string& prefix) {
  const int64_t heads_width = int64_t{config_.index_n_heads} * config_.index_head_dim;
  add_fp8(prefix + "attn.indexer.wq_b", heads_width, config_.q_lora_rank);
  add_bf16(prefix + "attn.indexer.weights_proj.weight",
           {config_.index_n_heads, config_.hidden_size});
}

void Table::add_engram(const std::string& prefix, int64_t num_rows) {
  const TensorOwner layer_owner = std::exchange(owner_, TensorOwner::kEngramTables);
  const int64_t row_width = config_.engram_head_dim;
  add(prefix + "embed.weight", Dtype::kF8E4m3, {num_rows, row_width});
  add(prefix + "embed.scale", Dtype::kF8E8m0, {num_rows, row_width / kGroup});
  owner_ = TensorOwner::kEngramResident;
  const int64_t hidden = config_.hidden_size;
  // One row per order 2 .. max and hash head; out: a key for every stream and one value.
  const int64_t num_columns = int64_t{config_.engram_max_ngram_size - 1} * config_.engram_n_heads;
  add_fp8(prefix + "wkv", (int64_t{config_.hc_mult} + 1) * hidden, num_columns * row_width);
  add_bf16(prefix + "q_weight", {config_.hc_mult, hidden});
  add_bf16(prefix + "k_weight", {config_.hc_mult, hidden});
  owner_ = layer_owner;
}

void Table::add_dspark() {
  owner_ = TensorOwner::kDspark;
  const int32_t num_stages = config_.num_nextn_predict_layers;
  if (num_stages == 0) return;
  for (int32_t stage = 0; stage < num_stages; ++stage) {
    add_block(fmt::format("mtp.{}.", stage), config_.dspark_n_routed_experts);
  }
  const int64_t hidden = config_.hidden_size;
  const auto num_taps = static_cast<int64_t>(config_.dspark_target_layer_ids.size());
  add_fp8("mtp.0.main_proj", hidden, num_taps * hidden);
  add_bf16("mtp.0.main_norm.weight", {hidden});
  const std::string last = fmt::format("mtp.{}.", num_stages - 1);
  const int64_t markov = config_.dspark_markov_rank;
  add_bf16(last + "norm.weight", {hidden});
  add_bf16(last + "markov_head.embed.weight", {config_.vocab_size, markov});
  add_bf16(last + "markov_head.head.weight", {config_.vocab_size, markov});
  add_bf16(last + "confidence_head.proj.weight", {1, hidden + markov});
}

void Table::add_vision(const VisionConfig& vision) {
  owner_ = TensorOwner::kVision;
  const int64_t width = vision.hidden_size;
  const int64_t inner = vision.intermediate_size;
  const int64_t hidden = config_.hidden_size;
  for (const char* name : {"image_start", "image_end", "image_newline"}) {
    add_bf16(name, {hidden});
  }
  const int64_t patch_values = int64_t{3} * vision.patch_size * vision.patch_size;
  add_bf16("vision.patch_embed.proj.weight", {width, patch_values});
  add_bf16("vision.patch_embed.proj.bias", {width});
  for (int32_t i = 0; i < vision.num_hidden_layers; ++i) {
    const std::string prefix = fmt::format("vision.blocks.{}.", i);
    add_bf16(prefix + "norm1.weight", {width});
    add_bf16(prefix + "norm2.weight", {width});
    add_bf16(prefix + "attn.wqkv.weight", {3 * width, width});
    add_bf16(prefix + "attn.wqkv.bias", {3 * width});
    add_bf16(prefix + "attn.wo.weight", {width, width});
    add_bf16(prefix + "attn.wo.bias", {width});
    add_bf16(prefix + "mlp.w1.weight", {2 * inner, width});
    add_bf16(prefix + "mlp.w2.weight", {width, inner});
  }
  add_bf16("vision.norm.weight", {width});
  const int64_t window = int64_t{vision.downsample_ratio} * vision.downsample_ratio;
  add_bf16("aligner.w1.weight", {hidden, window * width});
  add_bf16("aligner.w1.bias", {hidden});
  add_bf16("aligner.w2.weight", {hidden, hidden});
  add_bf16("aligner.w2.bias", {hidden});
}

}  // namespace

std::string_view to_string(TensorOwner owner) {
  switch (owner) {
    case TensorOwner::kEmbedHeadNorm:
      return "embed_head_norm";
    case TensorOwner::kEncoder:
      return "encoder";
    case TensorOwner::kDecoder:
      return "decoder";
    case TensorOwner::kEngramResident:
      return "engram_resident";
    case TensorOwner::kEngramTables:
      return "engram_tables";
    case TensorOwner::kDspark:
      return "dspark";
    case TensorOwner::kVision:
      return "vision";
    case TensorOwner::kCount:
      break;
  }
  return "?";
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  CHECK(config.engram_num_embeddings.size() == config.engram_layer_ids.size(),
        "{} table sizes for {} Engram layers", config.engram_num_embeddings.size(),
        config.engram_layer_ids.size());
  Table table(config);
  table.add_globals();
  for (int32_t layer = 0; layer < config.num_hidden_layers; ++layer) table.add_layer(layer);
  table.add_dspark();
  if (config.vision) table.add_vision(*config.vision);
  return std::move(table.tensors);
}

}  // namespace yeoul
