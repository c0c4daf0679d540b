#include "checkpoint/config_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "tensor/formats/kv_rows.h"

namespace yeoul {
namespace {

// FP8 activations, FP8 tiles, FP4 weights and index keys all share one scale over 32 values.
constexpr int32_t kQuantGroup = 32;
// Backbone and draft experts together; the release has 40 * 384 + 3 * 128 = 15,744.
constexpr int64_t kExpertsTotalMax = 1 << 18;

tl::unexpected<Error> corrupt(std::string message) {
  return fail(ErrorCode::kCorrupt, "config.json: " + std::move(message));
}

tl::unexpected<Error> unsupported(std::string message) {
  return fail(ErrorCode::kUnsupported, "config.json: " + std::move(message));
}

bool contains(const std::vector<int32_t>& list, int32_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

Result<void> check_ascending_layers(std::string_view key, const std::vector<int32_t>& layers,
                                    const ModelConfig& config) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] >= config.num_hidden_layers) {
      return corrupt(fmt::format("{} names layer {}, but num_hidden_layers is {}", key, layers[i],
                                 config.num_hidden_layers));
    }
    if (i > 0 && layers[i] <= layers[i - 1]) {
      return corrupt(fmt::format("{} must ascend, [{}] found", key, fmt::join(layers, ", ")));
    }
  }
  return {};
}

Result<void> check_widths(const ModelConfig& c) {
  struct Width {
    const char* name;
    int32_t value;
    int32_t max = std::numeric_limits<int32_t>::max();
  };
  for (const Width& width :
       {Width{"hidden_size", c.hidden_size}, Width{"head_dim", c.head_dim, kHeadDimMax},
        Width{"q_lora_rank", c.q_lora_rank}, Width{"o_lora_rank", c.o_lora_rank},
        Width{"moe_intermediate_size", c.moe_intermediate_size},
        Width{"index_head_dim", c.index_head_dim, kHeadDimMax},
        Width{"engram_head_dim", c.engram_head_dim}}) {
    if (width.value % kQuantGroup != 0) {
      return unsupported(
          fmt::format("{}: a multiple of {} (the quantisation group) expected, {} found",
                      width.name, kQuantGroup, width.value));
    }
    if (width.value > width.max) {
      return unsupported(
          fmt::format("{}: up to {} expected, {} found", width.name, width.max, width.value));
    }
  }
  if (c.num_attention_heads % c.o_groups != 0) {
    return corrupt(fmt::format("num_attention_heads {} is no multiple of o_groups {}",
                               c.num_attention_heads, c.o_groups));
  }
  if (c.qk_rope_head_dim % 2 != 0 || c.qk_rope_head_dim > std::min(c.head_dim, c.index_head_dim)) {
    return corrupt(
        fmt::format("qk_rope_head_dim: an even number up to head_dim {} and "
                    "index_head_dim {} expected, {} found",
                    c.head_dim, c.index_head_dim, c.qk_rope_head_dim));
  }
  if (c.rope_scaling.beta_fast < c.rope_scaling.beta_slow) {
    return corrupt(fmt::format("rope_scaling.beta_fast {} is below beta_slow {}",
                               c.rope_scaling.beta_fast, c.rope_scaling.beta_slow));
  }
  return {};
}

Result<void> check_experts(const ModelConfig& c) {
  if (c.num_experts_per_tok > c.n_routed_experts) {
    return corrupt(fmt::format("num_experts_per_tok {} exceeds n_routed_experts {}",
                               c.num_experts_per_tok, c.n_routed_experts));
  }
  if (c.dspark_num_experts_per_tok > c.dspark_n_routed_experts) {
    return corrupt(fmt::format("dspark_num_experts_per_tok {} exceeds dspark_n_routed_experts {}",
                               c.dspark_num_experts_per_tok, c.dspark_n_routed_experts));
  }
  const int64_t num_experts = int64_t{c.num_hidden_layers} * c.n_routed_experts +
                              int64_t{c.num_nextn_predict_layers} * c.dspark_n_routed_experts;
  if (num_experts > kExpertsTotalMax) {
    return unsupported(
        fmt::format("{} experts in all, {} at most expected", num_experts, kExpertsTotalMax));
  }
  return {};
}

// Window-only layers, then ratio 2 (encoder), then ratio 1 (decoder); DSpark stages see a window.
Result<void> check_ratios(const ModelConfig& c) {
  const auto num_layers = static_cast<size_t>(c.num_hidden_layers);
  const auto num_stages = static_cast<size_t>(c.num_nextn_predict_layers);
  if (c.compress_ratios.size() != num_layers + num_stages) {
    return corrupt(
        fmt::format("compress_ratios: {} entries (num_hidden_layers {} + "
                    "num_nextn_predict_layers {}) expected, {} found",
                    num_layers + num_stages, num_layers, num_stages, c.compress_ratios.size()));
  }
  const auto rank = [](int32_t ratio) { return ratio == 0 ? 0 : ratio == 2 ? 1 : 2; };
  for (size_t i = 1; i < num_layers; ++i) {
    if (rank(c.compress_ratios[i]) < rank(c.compress_ratios[i - 1])) {
      return unsupported(
          fmt::format("compress_ratios: 0s, then 2s, then 1s expected, {} after {} "
                      "found at layer {}",
                      c.compress_ratios[i], c.compress_ratios[i - 1], i));
    }
  }
  if (c.compress_ratios[num_layers - 1] != 1) {
    return unsupported("compress_ratios: no layer of ratio 1 (decoder half) found");
  }
  for (size_t i = num_layers; i < num_layers + num_stages; ++i) {
    if (c.compress_ratios[i] != 0) {
      return unsupported(fmt::format("compress_ratios: 0 expected for DSpark stage {}, {} found",
                                     i - num_layers, c.compress_ratios[i]));
    }
  }
  return {};
}

Result<void> check_sources(const ModelConfig& c) {
  TRY(check_ascending_layers("kv_source_layer_ids", c.kv_source_layer_ids, c));
  TRY(check_ascending_layers("index_source_layer_ids", c.index_source_layer_ids, c));
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const int32_t ratio = c.compress_ratios[static_cast<size_t>(layer)];
    const int32_t source = c.kv_source_of(layer);
    if (ratio == 0 && contains(c.index_source_layer_ids, layer)) {
      return corrupt(
          fmt::format("index_source_layer_ids names layer {}, which is window-only", layer));
    }
    if (ratio == 0 && contains(c.kv_source_layer_ids, layer)) {
      return corrupt(
          fmt::format("kv_source_layer_ids names layer {}, which is window-only", layer));
    }
    if (ratio != 0 && (source < 0 || c.compress_ratios[static_cast<size_t>(source)] != ratio)) {
      return corrupt(
          fmt::format("kv_source_layer_ids: layer {} of ratio {} has no source of that "
                      "ratio at or before it",
                      layer, ratio));
    }
  }
  for (const int32_t layer : c.kv_source_layer_ids) {
    if (!contains(c.index_source_layer_ids, layer)) {
      return unsupported(fmt::format(
          "kv_source_layer_ids names layer {}, which index_source_layer_ids does not", layer));
    }
  }
  if (c.kv_source_layer_ids.back() != c.decoder_start()) {
    return unsupported(
        fmt::format("kv_source_layer_ids: one source in the decoder half, layer {}, "
                    "expected, layer {} found",
                    c.decoder_start(), c.kv_source_layer_ids.back()));
  }
  if (c.candidate_source_layer_id != c.decoder_start()) {
    return unsupported(
        fmt::format("candidate_source_layer_id: the first decoder layer {} expected, "
                    "{} found",
                    c.decoder_start(), c.candidate_source_layer_id));
  }
  if (int64_t{c.candidate_topk_blocks} * c.candidate_block_size < c.index_topk) {
    return unsupported(
        fmt::format("candidate_topk_blocks {} * candidate_block_size {} is less than "
                    "index_topk {}",
                    c.candidate_topk_blocks, c.candidate_block_size, c.index_topk));
  }
  return {};
}

Result<void> check_engram(const ModelConfig& c) {
  TRY(check_ascending_layers("engram_layer_ids", c.engram_layer_ids, c));
  if (!c.engram_num_embeddings.empty() &&
      c.engram_num_embeddings.size() != c.engram_layer_ids.size()) {
    return corrupt(
        fmt::format("engram_num_embeddings: {} entries (one per engram_layer_ids) "
                    "expected, {} found",
                    c.engram_layer_ids.size(), c.engram_num_embeddings.size()));
  }
  if (c.engram_compressed_vocab_size > c.vocab_size) {
    return corrupt(fmt::format("engram_compressed_vocab_size {} exceeds vocab_size {}",
                               c.engram_compressed_vocab_size, c.vocab_size));
  }
  return {};
}

Result<void> check_dspark(const ModelConfig& c) {
  if (c.num_nextn_predict_layers == 0) return {};
  TRY(check_ascending_layers("dspark_target_layer_ids", c.dspark_target_layer_ids, c));
  if (c.dspark_target_layer_ids.empty()) {
    return corrupt("dspark_target_layer_ids: at least one layer expected, none found");
  }
  if (c.dspark_target_layer_ids.front() < c.decoder_start()) {
    return unsupported(
        fmt::format("dspark_target_layer_ids: decoder layers (from {}) expected, {} "
                    "found",
                    c.decoder_start(), c.dspark_target_layer_ids.front()));
  }
  return {};
}

Result<void> check_token_ids(const ModelConfig& c) {
  struct Token {
    const char* name;
    TokenId id;
  };
  for (const Token& token :
       {Token{"bos_token_id", c.bos_token_id}, Token{"eos_token_id", c.eos_token_id},
        Token{"engram_pad_token_id", c.engram_pad_token_id},
        Token{"dspark_noise_token_id", c.dspark_noise_token_id},
        Token{"image_token_id", c.image_token_id}}) {
    if (token.id >= c.vocab_size) {
      return corrupt(
          fmt::format("{} {} is outside the vocabulary of {}", token.name, token.id, c.vocab_size));
    }
  }
  return {};
}

Result<void> check_vision(const ModelConfig& c) {
  if (!c.vision) return {};
  const VisionConfig& vision = *c.vision;
  if (c.image_token_id < 0) return corrupt("image_token_id: missing, but vision_config is there");
  // The rotation splits a head into pairs of a row part and a column part: four equal pieces.
  if (vision.hidden_size % (4 * vision.num_attention_heads) != 0) {
    return corrupt(
        fmt::format("vision_config.hidden_size {} is no multiple of 4 * "
                    "num_attention_heads {}",
                    vision.hidden_size, vision.num_attention_heads));
  }
  return {};
}

}  // namespace

Result<void> check_consistency(const ModelConfig& config) {
  TRY(check_ratios(config));
  TRY(check_sources(config));
  TRY(check_widths(config));
  TRY(check_experts(config));
  TRY(check_engram(config));
  TRY(check_dspark(config));
  TRY(check_token_ids(config));
  TRY(check_vision(config));
  return {};
}

}  // namespace yeoul
