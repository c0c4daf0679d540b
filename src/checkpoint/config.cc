#include "checkpoint/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "checkpoint/config_check.h"
#include "checkpoint/config_section.h"

namespace yeoul {
namespace {

// Bounds far above the release that keep every product of widths within int64 and a hostile file
// from asking for an endless table.
constexpr IntegerRange kWidth{1, 1 << 20};
constexpr IntegerRange kCount{1, 1 << 16};
constexpr IntegerRange kLayers{1, 1024};
constexpr IntegerRange kLayerId{0, 1023};
constexpr IntegerRange kToken{0, (1 << 24) - 1};
// Positions become float32 factors of the rotation angles; float32 counts exactly up to 2^24.
constexpr IntegerRange kPositions{1, 1 << 24};
constexpr IntegerRange kTableRows{1, int64_t{1} << 40};
constexpr double kPositiveMin = 1e-300;

Result<void> status_of(const ConfigSection& section) {
  if (section.error()) return tl::unexpected<Error>(*section.error());
  return {};
}

Result<void> check_architecture(const Json& root) {
  ConfigSection top(root, "config.json");
  top.expect("model_type", "deepseek_v41");
  top.expect("architectures", Json::array({"DeepseekV41ForCausalLM"}));
  top.expect_if_present("tie_word_embeddings", false);
  TRY(status_of(top));
  if (!top.has("text_config")) return fail(ErrorCode::kCorrupt, "config.json.text_config: missing");
  return {};
}

Result<void> check_quantization(const Json& root) {
  if (!root.contains("quantization_config")) {
    return fail(ErrorCode::kUnsupported,
                "config.json.quantization_config: missing; FP8 with FP4 experts is what is read");
  }
  ConfigSection section(root["quantization_config"], "quantization_config");
  section.expect("quant_method", "fp8");
  section.expect("weight_block_size", Json::array({32, 32}));
  section.expect("scale_fmt", "ue8m0");
  section.expect("expert_dtype", "fp4");
  section.expect_if_present("activation_scheme", "dynamic");
  return status_of(section);
}

void read_backbone(ConfigSection& text, ModelConfig& config) {
  text.require("vocab_size", config.vocab_size, {1, kToken.max + 1});
  text.require("hidden_size", config.hidden_size, kWidth);
  text.require("num_hidden_layers", config.num_hidden_layers, kLayers);
  text.require("num_attention_heads", config.num_attention_heads, kCount);
  text.require("head_dim", config.head_dim, kWidth);
  text.require("qk_rope_head_dim", config.qk_rope_head_dim, kWidth);
  text.require("q_lora_rank", config.q_lora_rank, kWidth);
  text.require("o_groups", config.o_groups, kCount);
  text.require("o_lora_rank", config.o_lora_rank, kWidth);
  text.require_number("swiglu_limit", config.swiglu_limit, 1e-6);
  text.require("moe_intermediate_size", config.moe_intermediate_size, kWidth);
  text.require("n_routed_experts", config.n_routed_experts, kCount);
  text.require("num_experts_per_tok", config.num_experts_per_tok, kCount);
  text.allow_flag("norm_topk_prob", config.norm_topk_prob);
  text.allow_number("routed_scaling_factor", config.routed_scaling_factor, 0);
  text.allow_number("gate_temp", config.gate_temp, 1e-6);
  text.require_number("rms_norm_eps", config.rms_norm_eps, 0);
  text.require("max_position_embeddings", config.max_position_embeddings, kPositions);
  text.require_number("rope_theta", config.rope_theta, 1);
  text.require_number("compress_rope_theta", config.compress_rope_theta, 1);
  text.require("hc_mult", config.hc_mult, {1, 16});
  text.require("hc_sinkhorn_iters", config.hc_sinkhorn_iters, {1, 1000});
  text.require_number("hc_eps", config.hc_eps, 0);
  text.expect_if_present("n_shared_experts", 1);
  text.expect_if_present("num_key_value_heads", 1);
  text.expect_if_present("model_type", "deepseek_v41_text");
  text.expect_if_present("hidden_act", "silu");
  text.expect_if_present("scoring_func", "sqrtsoftplus");
  text.expect_if_present("topk_method", "noaux_tc");
  text.expect_if_present("tie_word_embeddings", false);
}

void read_attention_sources(ConfigSection& text, ModelConfig& config) {
  text.require("sliding_window", config.sliding_window, kWidth);
  text.require_list("compress_ratios", config.compress_ratios, {0, 2});
  text.require_list("kv_source_layer_ids", config.kv_source_layer_ids, kLayerId);
  text.require_list("index_source_layer_ids", config.index_source_layer_ids, kLayerId);
  text.require("index_n_heads", config.index_n_heads, kCount);
  text.require("index_head_dim", config.index_head_dim, kWidth);
  text.require("index_topk", config.index_topk, kWidth);
  text.require("candidate_source_layer_id", config.candidate_source_layer_id, kLayerId);
  text.require("candidate_topk_blocks", config.candidate_topk_blocks, kWidth);
  text.require("candidate_block_size", config.candidate_block_size, kWidth);
}

void read_engram(ConfigSection& text, ModelConfig& config) {
  text.require_list("engram_layer_ids", config.engram_layer_ids, kLayerId);
  if (text.has("engram_num_embeddings")) {
    text.require_list("engram_num_embeddings", config.engram_num_embeddings, kTableRows);
  }
  text.require("engram_max_ngram_size", config.engram_max_ngram_size, {2, 16});
  text.require("engram_vocab_size", config.engram_vocab_size, {2, int64_t{1} << 32});
  text.require("engram_n_heads", config.engram_n_heads, {1, 256});
  text.require("engram_head_dim", config.engram_head_dim, {1, 1 << 16});
  // The release spells it engram_pad_token_id, its flat copy and some ports engram_pad_id.
  if (!text.has("engram_pad_token_id")) {
    text.allow("engram_pad_id", config.engram_pad_token_id, kToken);
  } else {
    text.require("engram_pad_token_id", config.engram_pad_token_id, kToken);
    text.expect_if_present("engram_pad_id", config.engram_pad_token_id);
  }
  text.allow("engram_compressed_vocab_size", config.engram_compressed_vocab_size,
             {0, kToken.max + 1});
}

void read_dspark(ConfigSection& text, ModelConfig& config) {
  text.allow("num_nextn_predict_layers", config.num_nextn_predict_layers, {0, 64});
  if (config.num_nextn_predict_layers == 0) return;
  text.require("dspark_block_size", config.dspark_block_size, {1, 64});
  text.require("dspark_noise_token_id", config.dspark_noise_token_id, kToken);
  text.require_list("dspark_target_layer_ids", config.dspark_target_layer_ids, kLayerId);
  text.require("dspark_markov_rank", config.dspark_markov_rank, kWidth);
  text.require("dspark_n_routed_experts", config.dspark_n_routed_experts, kCount);
  text.require("dspark_num_experts_per_tok", config.dspark_num_experts_per_tok, kCount);
}

Result<void> read_rope_scaling(const Json& text, YarnConfig& yarn) {
  if (!text.contains("rope_scaling")) {
    return fail(ErrorCode::kCorrupt, "text_config.rope_scaling: missing");
  }
  ConfigSection section(text["rope_scaling"], "text_config.rope_scaling");
  section.expect(section.has("rope_type") ? "rope_type" : "type", "yarn");
  section.require_number("factor", yarn.factor, 1);
  section.require_number("beta_fast", yarn.beta_fast, kPositiveMin);
  section.require_number("beta_slow", yarn.beta_slow, kPositiveMin);
  section.require("original_max_position_embeddings", yarn.original_max_position_embeddings,
                  kPositions);
  return status_of(section);
}

Result<std::optional<VisionConfig>> read_vision(const Json& root) {
  if (!root.contains("vision_config") || root["vision_config"].is_null()) {
    return std::optional<VisionConfig>();
  }
  VisionConfig vision;
  ConfigSection section(root["vision_config"], "vision_config");
  section.require("num_hidden_layers", vision.num_hidden_layers, kLayers);
  section.require("hidden_size", vision.hidden_size, {1, 1 << 16});
  section.require("num_attention_heads", vision.num_attention_heads, {1, 1024});
  section.require("intermediate_size", vision.intermediate_size, kWidth);
  section.require("patch_size", vision.patch_size, {1, 1024});
  section.require("downsample_ratio", vision.downsample_ratio, {1, 64});
  section.require("max_image_tokens", vision.max_image_tokens, {4, 1 << 20});
  section.require("min_pixels", vision.min_pixels, {1, int64_t{1} << 40});
  section.allow_number("rope_theta", vision.rope_theta, 1);
  section.expect_if_present("model_type", "deepseek_v41_vision");
  if (section.has("max_wh_ratio")) section.expect_if_present("max_wh_ratio", nullptr);
  TRY(status_of(section));
  return std::optional<VisionConfig>(vision);
}

}  // namespace

int32_t ModelConfig::decoder_start() const {
  const auto layers_end = compress_ratios.begin() + num_hidden_layers;
  const auto first = std::find(compress_ratios.begin(), layers_end, 1);
  return static_cast<int32_t>(first - compress_ratios.begin());
}

int32_t ModelConfig::kv_source_of(int32_t layer) const {
  if (compress_ratios[static_cast<size_t>(layer)] == 0) return -1;
  const auto after =
      std::upper_bound(kv_source_layer_ids.begin(), kv_source_layer_ids.end(), layer);
  return after == kv_source_layer_ids.begin() ? -1 : *(after - 1);
}

Result<ModelConfig> parse_config(const std::string& json) {
  const Result<Json> root = parse_json(json);
  if (!root) return fail(ErrorCode::kCorrupt, "config.json: " + root.error().message);
  TRY(check_architecture(*root));
  TRY(check_quantization(*root));

  ModelConfig config;
  const Json& text_json = (*root)["text_config"];
  ConfigSection text(text_json, "text_config");
  read_backbone(text, config);
  read_attention_sources(text, config);
  read_engram(text, config);
  read_dspark(text, config);
  ConfigSection top(*root, "config.json");
  for (ConfigSection* section : {&top, &text}) {
    section->allow("bos_token_id", config.bos_token_id, kToken);
    section->allow("eos_token_id", config.eos_token_id, kToken);
    section->allow("image_token_id", config.image_token_id, {-1, kToken.max});
  }
  TRY(status_of(text));
  TRY(status_of(top));
  TRY(read_rope_scaling(text_json, config.rope_scaling));
  TRY_ASSIGN(config.vision, read_vision(*root));
  TRY(check_consistency(config));
  return config;
}

}  // namespace yeoul
