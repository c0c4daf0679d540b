#include <nlohmann/json.hpp>

#include "checkpoint/config.h"

namespace yeoul {
namespace {

using OrderedJson = nlohmann::ordered_json;

void put_backbone(const ModelConfig& c, OrderedJson& text) {
  text["vocab_size"] = c.vocab_size;
  text["hidden_size"] = c.hidden_size;
  text["num_hidden_layers"] = c.num_hidden_layers;
  text["num_attention_heads"] = c.num_attention_heads;
  text["num_key_value_heads"] = 1;
  text["head_dim"] = c.head_dim;
  text["qk_rope_head_dim"] = c.qk_rope_head_dim;
  text["q_lora_rank"] = c.q_lora_rank;
  text["o_groups"] = c.o_groups;
  text["o_lora_rank"] = c.o_lora_rank;
  text["hidden_act"] = "silu";
  text["swiglu_limit"] = c.swiglu_limit;
  text["moe_intermediate_size"] = c.moe_intermediate_size;
  text["n_routed_experts"] = c.n_routed_experts;
  text["n_shared_experts"] = c.n_shared_experts;
  text["num_experts_per_tok"] = c.num_experts_per_tok;
  text["scoring_func"] = "sqrtsoftplus";
  text["topk_method"] = "noaux_tc";
  text["norm_topk_prob"] = c.norm_topk_prob;
  text["routed_scaling_factor"] = c.routed_scaling_factor;
  text["gate_temp"] = c.gate_temp;
  text["rms_norm_eps"] = c.rms_norm_eps;
  text["max_position_embeddings"] = c.max_position_embeddings;
  text["rope_theta"] = c.rope_theta;
  text["compress_rope_theta"] = c.compress_rope_theta;
  text["rope_scaling"] = {
      {"type", "yarn"},
      {"factor", c.rope_scaling.factor},
      {"beta_fast", c.rope_scaling.beta_fast},
      {"beta_slow", c.rope_scaling.beta_slow},
      {"original_max_position_embeddings", c.rope_scaling.original_max_position_embeddings}};
  text["hc_mult"] = c.hc_mult;
  text["hc_sinkhorn_iters"] = c.hc_sinkhorn_iters;
  text["hc_eps"] = c.hc_eps;
}

void put_attention_sources(const ModelConfig& c, OrderedJson& text) {
  text["sliding_window"] = c.sliding_window;
  text["compress_ratios"] = c.compress_ratios;
  text["kv_source_layer_ids"] = c.kv_source_layer_ids;
  text["index_source_layer_ids"] = c.index_source_layer_ids;
  text["index_n_heads"] = c.index_n_heads;
  text["index_head_dim"] = c.index_head_dim;
  text["index_topk"] = c.index_topk;
  text["candidate_source_layer_id"] = c.candidate_source_layer_id;
  text["candidate_topk_blocks"] = c.candidate_topk_blocks;
  text["candidate_block_size"] = c.candidate_block_size;
}

void put_engram(const ModelConfig& c, OrderedJson& text) {
  text["engram_layer_ids"] = c.engram_layer_ids;
  text["engram_num_embeddings"] = c.engram_num_embeddings;
  text["engram_max_ngram_size"] = c.engram_max_ngram_size;
  text["engram_vocab_size"] = c.engram_vocab_size;
  text["engram_n_heads"] = c.engram_n_heads;
  text["engram_head_dim"] = c.engram_head_dim;
  text["engram_pad_token_id"] = c.engram_pad_token_id;
  text["engram_compressed_vocab_size"] = c.engram_compressed_vocab_size;
}

void put_dspark(const ModelConfig& c, OrderedJson& text) {
  text["num_nextn_predict_layers"] = c.num_nextn_predict_layers;
  if (c.num_nextn_predict_layers == 0) return;
  text["dspark_block_size"] = c.dspark_block_size;
  text["dspark_noise_token_id"] = c.dspark_noise_token_id;
  text["dspark_target_layer_ids"] = c.dspark_target_layer_ids;
  text["dspark_markov_rank"] = c.dspark_markov_rank;
  text["dspark_n_routed_experts"] = c.dspark_n_routed_experts;
  text["dspark_num_experts_per_tok"] = c.dspark_num_experts_per_tok;
}

OrderedJson vision_section(const VisionConfig& v) {
  return {{"model_type", "deepseek_v41_vision"},
          {"num_hidden_layers", v.num_hidden_layers},
          {"hidden_size", v.hidden_size},
          {"num_attention_heads", v.num_attention_heads},
          {"intermediate_size", v.intermediate_size},
          {"patch_size", v.patch_size},
          {"rope_theta", v.rope_theta},
          {"downsample_ratio", v.downsample_ratio},
          {"max_image_tokens", v.max_image_tokens},
          {"min_pixels", v.min_pixels},
          {"max_wh_ratio", nullptr}};
}

}  // namespace

std::string format_config(const ModelConfig& config) {
  OrderedJson root;
  root["architectures"] = {"DeepseekV41ForCausalLM"};
  root["model_type"] = "deepseek_v41";
  if (config.image_token_id >= 0) root["image_token_id"] = config.image_token_id;
  root["tie_word_embeddings"] = false;
  root["quantization_config"] = {{"quant_method", "fp8"},
                                 {"activation_scheme", "dynamic"},
                                 {"weight_block_size", {32, 32}},
                                 {"scale_fmt", "ue8m0"},
                                 {"expert_dtype", "fp4"}};
  OrderedJson text;
  text["model_type"] = "deepseek_v41_text";
  put_backbone(config, text);
  put_attention_sources(config, text);
  put_engram(config, text);
  put_dspark(config, text);
  text["tie_word_embeddings"] = false;
  text["bos_token_id"] = config.bos_token_id;
  text["eos_token_id"] = config.eos_token_id;
  root["text_config"] = std::move(text);
  if (config.vision) root["vision_config"] = vision_section(*config.vision);
  return root.dump(2) + "\n";
}

}  // namespace yeoul
