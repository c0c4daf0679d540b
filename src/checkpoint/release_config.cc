#include "checkpoint/release_config.h"

#include <fmt/format.h>

#include <algorithm>

namespace yeoul {
namespace {

constexpr int32_t kWindowLayers = 2;
constexpr int32_t kEncoderLayers = 18, kDecoderLayers = 20;  // of the release
constexpr int32_t kSecondEngramLayer = 14;
constexpr int32_t kKvSourceStride = 6;     // in the encoder
constexpr int32_t kIndexSourceStride = 4;  // in the decoder

// Fills compress ratios and source lists for `num_encoder` layers of ratio 2 and the rest ratio 1.
void lay_out_attention(int32_t num_layers, int32_t num_encoder, ModelConfig& config) {
  const int32_t decoder_start = kWindowLayers + num_encoder;
  config.num_hidden_layers = num_layers;
  config.compress_ratios.clear();
  config.kv_source_layer_ids.clear();
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    const int32_t ratio = layer < kWindowLayers ? 0 : layer < decoder_start ? 2 : 1;
    config.compress_ratios.push_back(ratio);
    if (ratio == 2 && (layer - kWindowLayers) % kKvSourceStride == 0) {
      config.kv_source_layer_ids.push_back(layer);
    }
  }
  config.kv_source_layer_ids.push_back(decoder_start);
  config.index_source_layer_ids = config.kv_source_layer_ids;
  for (int32_t layer = decoder_start + kIndexSourceStride; layer < num_layers;
       layer += kIndexSourceStride) {
    config.index_source_layer_ids.push_back(layer);
  }
  config.candidate_source_layer_id = decoder_start;
}

}  // namespace

ModelConfig release_config() {
  ModelConfig c;
  c.vocab_size = 129280;
  c.hidden_size = 5120;
  c.num_attention_heads = 64;
  c.head_dim = 512;
  c.qk_rope_head_dim = 64;
  c.q_lora_rank = 1280;
  c.o_groups = 8;
  c.o_lora_rank = 1024;
  c.swiglu_limit = 10;
  c.moe_intermediate_size = 2304;
  c.n_routed_experts = 384;
  c.num_experts_per_tok = 6;
  c.routed_scaling_factor = 1.5;
  c.rms_norm_eps = 1e-20;
  c.max_position_embeddings = 1048576;
  c.rope_theta = 10000;
  c.compress_rope_theta = 160000;
  c.rope_scaling = {
      .factor = 16, .beta_fast = 32, .beta_slow = 1, .original_max_position_embeddings = 65536};
  c.sliding_window = 128;
  lay_out_attention(kWindowLayers + kEncoderLayers + kDecoderLayers, kEncoderLayers, c);
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 512;
  c.candidate_topk_blocks = 2048;
  c.candidate_block_size = 8;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.engram_layer_ids = {1, kSecondEngramLayer};
  c.engram_num_embeddings = {384006168, 384016682};
  c.engram_max_ngram_size = 4;
  c.engram_vocab_size = 16000000;
  c.engram_n_heads = 8;
  c.engram_head_dim = 256;
  c.engram_compressed_vocab_size = 99092;
  c.num_nextn_predict_layers = 3;
  c.compress_ratios.insert(c.compress_ratios.end(), 3, 0);
  c.dspark_block_size = 5;
  c.dspark_noise_token_id = 128799;
  c.dspark_target_layer_ids = {37, 38, 39};
  c.dspark_markov_rank = 256;
  c.dspark_n_routed_experts = 128;
  c.dspark_num_experts_per_tok = 3;
  c.image_token_id = 129264;
  c.vision = VisionConfig{.num_hidden_layers = 32,
                          .hidden_size = 1024,
                          .num_attention_heads = 16,
                          .intermediate_size = 2816,
                          .patch_size = 14,
                          .downsample_ratio = 3,
                          .max_image_tokens = 1024,
                          .min_pixels = 295936};
  return c;
}

Result<ModelConfig> slice_config(int32_t num_layers) {
  constexpr int32_t kLayersMin = kWindowLayers + 2, kLayersMax = 1024;
  if (num_layers < kLayersMin || num_layers > kLayersMax) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("layers: {} to {} expected, {} found",
                                                         kLayersMin, kLayersMax, num_layers));
  }
  ModelConfig config = release_config();
  const int32_t num_compressed = num_layers - kWindowLayers;
  const int32_t num_encoder =
      std::max(1, num_compressed * kEncoderLayers / (kEncoderLayers + kDecoderLayers));
  lay_out_attention(num_layers, num_encoder, config);
  if (config.decoder_start() <= kSecondEngramLayer) config.engram_layer_ids.pop_back();
  config.engram_num_embeddings.clear();
  config.num_nextn_predict_layers = 0;
  config.dspark_block_size = 0;
  config.dspark_noise_token_id = 0;
  config.dspark_target_layer_ids.clear();
  config.dspark_markov_rank = 0;
  config.dspark_n_routed_experts = 0;
  config.dspark_num_experts_per_tok = 0;
  config.vision.reset();
  return config;
}

}  // namespace yeoul
