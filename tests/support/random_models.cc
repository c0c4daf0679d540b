#include "support/random_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/random_weights.h"
#include "checkpoint/release_config.h"

namespace yeoul {
namespace {

// What the two models share: the release's structure at small widths.
ModelConfig small_widths() {
  ModelConfig c = *slice_config(4);
  c.qk_rope_head_dim = 32;
  c.swiglu_limit = 3;
  c.max_position_embeddings = 16384;
  c.compress_rope_theta = 40000;
  c.rope_scaling = {
      .factor = 16, .beta_fast = 16, .beta_slow = 1, .original_max_position_embeddings = 4096};
  c.index_head_dim = 64;
  c.candidate_topk_blocks = 24;
  return c;
}

}  // namespace

ModelConfig random_model_config(int window, int top_k) {
  ModelConfig c = small_widths();
  c.image_token_id = 507;
  c.vocab_size = 512;
  c.hidden_size = 160;
  c.num_hidden_layers = 10;
  c.num_attention_heads = 4;
  c.head_dim = 64;
  c.q_lora_rank = 96;
  c.o_groups = 2;
  c.o_lora_rank = 32;
  c.moe_intermediate_size = 96;
  c.n_routed_experts = 16;
  c.num_experts_per_tok = 4;
  c.sliding_window = window;
  c.compress_ratios = {0, 0, 2, 2, 2, 1, 1, 1, 1, 1};
  c.kv_source_layer_ids = {2, 4, 5};
  c.index_source_layer_ids = {2, 4, 5, 7, 9};
  c.index_n_heads = 8;
  c.index_topk = top_k;
  c.candidate_source_layer_id = 5;
  c.engram_layer_ids = {1, 4};
  c.engram_num_embeddings = {3144, 3424};
  c.engram_vocab_size = 500;
  c.engram_n_heads = 2;
  c.engram_head_dim = 64;
  c.engram_compressed_vocab_size = 384;
  return c;
}

ModelConfig small_model_config() {
  ModelConfig c = small_widths();
  c.image_token_id = 4091;
  c.vocab_size = 4096;
  c.hidden_size = 384;
  c.num_hidden_layers = 14;
  c.num_attention_heads = 8;
  c.head_dim = 128;
  c.q_lora_rank = 160;
  c.o_groups = 4;
  c.o_lora_rank = 64;
  c.moe_intermediate_size = 192;
  c.n_routed_experts = 32;
  c.num_experts_per_tok = 6;
  c.sliding_window = 64;
  c.compress_ratios = {0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1};
  c.kv_source_layer_ids = {2, 5, 8};
  c.index_source_layer_ids = {2, 5, 8, 10, 12};
  c.index_n_heads = 16;
  c.index_topk = 64;
  c.candidate_source_layer_id = 8;
  c.engram_layer_ids = {1, 5};
  c.engram_num_embeddings = {24562, 25586};
  c.engram_vocab_size = 2000;
  c.engram_n_heads = 4;
  c.engram_head_dim = 128;
  c.engram_compressed_vocab_size = 2589;
  return c;
}

Result<void> write_random_model(const ModelConfig& config, const std::string& directory,
                                uint64_t seed) {
  CheckpointPlan plan = plan_checkpoint(config);
  for (PlannedShard& shard : plan.shards) std::reverse(shard.tensors.begin(), shard.tensors.end());
  const RandomWeights weights(seed);
  WriteOptions options;
  options.fill = [&](const ExpectedTensor& tensor, uint64_t offset, std::span<std::byte> into) {
    weights.fill(tensor, offset, into);
  };
  TRY(write_checkpoint(plan, directory, options));
  std::vector<int64_t> token_map(static_cast<size_t>(config.vocab_size));
  for (size_t i = 0; i < token_map.size(); ++i) {
    token_map[i] = static_cast<int64_t>(i) % config.engram_compressed_vocab_size;
  }
  std::ofstream file(directory + "/engram_map.json");
  file << fmt::format("{{\"token_map\": [{}]}}\n", fmt::join(token_map, ","));
  file.close();
  if (file) return {};
  return fail(ErrorCode::kUnavailable, directory + "/engram_map.json: cannot write");
}

}  // namespace yeoul
