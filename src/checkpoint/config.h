#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace yeoul {

struct YarnConfig {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  int64_t original_max_position_embeddings = 0;

  bool operator==(const YarnConfig&) const = default;
};

struct VisionConfig {
  int32_t num_hidden_layers = 0;
  int32_t hidden_size = 0;
  int32_t num_attention_heads = 0;
  int32_t intermediate_size = 0;
  int32_t patch_size = 0;
  int32_t downsample_ratio = 0;
  int32_t max_image_tokens = 0;
  int64_t min_pixels = 0;
  double rope_theta = 10000;

  bool operator==(const VisionConfig&) const = default;
};

// config.json of a DeepSeek-V4.1 checkpoint; fields keep the file's spelling. Every value has been
// checked for range and mutual consistency by parse_config. Plain data.
struct ModelConfig {
  int32_t vocab_size = 0;
  int32_t hidden_size = 0;
  int32_t num_hidden_layers = 0;
  int32_t num_attention_heads = 0;
  int32_t head_dim = 0;
  int32_t qk_rope_head_dim = 0;
  int32_t q_lora_rank = 0;
  int32_t o_groups = 0;
  int32_t o_lora_rank = 0;
  float swiglu_limit = 0;
  int32_t moe_intermediate_size = 0;
  int32_t n_routed_experts = 0;
  int32_t n_shared_experts = 1;
  int32_t num_experts_per_tok = 0;
  bool norm_topk_prob = true;
  float routed_scaling_factor = 1;
  float gate_temp = 1;
  double rms_norm_eps = 0;
  int64_t max_position_embeddings = 0;
  double rope_theta = 0;
  double compress_rope_theta = 0;
  YarnConfig rope_scaling;
  int32_t sliding_window = 0;
  std::vector<int32_t> compress_ratios;  // one per layer, then one per DSpark stage
  std::vector<int32_t> kv_source_layer_ids;
  std::vector<int32_t> index_source_layer_ids;
  int32_t index_n_heads = 0;
  int32_t index_head_dim = 0;
  int32_t index_topk = 0;
  int32_t candidate_source_layer_id = -1;
  int32_t candidate_topk_blocks = 0;
  int32_t candidate_block_size = 0;
  int32_t hc_mult = 0;
  int32_t hc_sinkhorn_iters = 0;
  double hc_eps = 0;
  std::vector<int32_t> engram_layer_ids;
  std::vector<int64_t> engram_num_embeddings;  // rows of each layer's table
  int32_t engram_max_ngram_size = 0;
  int64_t engram_vocab_size = 0;  // where the search for bucket primes starts
  int32_t engram_n_heads = 0;
  int32_t engram_head_dim = 0;
  TokenId engram_pad_token_id = 2;
  int64_t engram_compressed_vocab_size = 0;  // 0: not stated
  int32_t num_nextn_predict_layers = 0;
  int32_t dspark_block_size = 0;
  TokenId dspark_noise_token_id = 0;
  std::vector<int32_t> dspark_target_layer_ids;
  int32_t dspark_markov_rank = 0;
  int32_t dspark_n_routed_experts = 0;
  int32_t dspark_num_experts_per_tok = 0;
  TokenId bos_token_id = 0;
  TokenId eos_token_id = 1;
  TokenId image_token_id = -1;
  std::optional<VisionConfig> vision;

  // First layer of the decoder half: the first with compress ratio 1.
  int32_t decoder_start() const;
  // The KV source that feeds `layer`: the last source at or before it; -1 for window-only layers.
  int32_t kv_source_of(int32_t layer) const;

  bool operator==(const ModelConfig&) const = default;
};

// kCorrupt / kUnsupported name the key, the expected and the found (an unknown architecture, a
// missing key, a width that is no multiple of its quantisation group, lists of the wrong length,
// ...).
Result<ModelConfig> parse_config(const std::string& json);

// config.json of the released layout: parse_config gives `config` back.
std::string format_config(const ModelConfig& config);

}  // namespace yeoul
