#include "sparse_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "checkpoint/config.h"

namespace yeoul {
namespace {

// Position of the shard of one tensor. A layer's Engram goes with its table to the end.
class Layout {
 public:
  explicit Layout(const ModelConfig& config) : config_(config) {}

  size_t num_shards() const { return first_engram() + config_.engram_layer_ids.size(); }

  size_t shard_of(const ExpectedTensor& tensor) const {
    switch (tensor.owner) {
      case TensorOwner::kEmbedHeadNorm:
        return tensor.name == "embed.weight" ? 0 : 1;
      case TensorOwner::kEncoder:
      case TensorOwner::kDecoder:
        return 2 + number_after_dot(tensor.name);
      case TensorOwner::kVision:
        return first_dspark() - 1;
      case TensorOwner::kDspark:
        return first_dspark() + number_after_dot(tensor.name);
      case TensorOwner::kEngramResident:
      case TensorOwner::kEngramTables:
        return first_engram() + engram_index(number_after_dot(tensor.name));
      case TensorOwner::kCount:
        break;
    }
    CHECK(false, "{} has no owner", tensor.name);
    return 0;
  }

 private:
  size_t first_dspark() const { return 3 + static_cast<size_t>(config_.num_hidden_layers); }
  size_t first_engram() const {
    return first_dspark() + static_cast<size_t>(config_.num_nextn_predict_layers);
  }
  // 7 of "layers.7.attn.wq_a.weight".
  static size_t number_after_dot(const std::string& name) {
    return std::strtoul(name.c_str() + name.find('.') + 1, nullptr, 10);
  }
  size_t engram_index(size_t layer) const {
    for (size_t i = 0; i < config_.engram_layer_ids.size(); ++i) {
      if (static_cast<size_t>(config_.engram_layer_ids[i]) == layer) return i;
    }
    CHECK(false, "layer {} has no Engram", layer);
    return 0;
  }

  const ModelConfig& config_;
};

uint64_t count_bytes(const ExpectedTensor& tensor) {
  auto num_bytes = static_cast<uint64_t>(bytes_of(tensor.dtype));
  for (const int64_t dim : tensor.shape) num_bytes *= static_cast<uint64_t>(dim);
  return num_bytes;
}

Result<void> write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (file) return {};
  return fail(ErrorCode::kUnavailable, path + ": cannot write");
}

// Returns the bytes of the shard's tensors.
Result<uint64_t> write_shard(const SparseShard& shard, const std::string& directory) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  uint64_t end = 0;
  for (const ExpectedTensor& tensor : shard.tensors) {
    const uint64_t begin = end;
    end += count_bytes(tensor);
    header +=
        fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", tensor.name,
                    to_string(tensor.dtype), fmt::join(tensor.shape, ","), begin, end);
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string start(8, '\0');
  for (size_t i = 0; i < 8; ++i) start[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  const std::string path = directory + "/" + shard.file_name;
  TRY(write_file(path, start + header));
  if (::truncate(path.c_str(), static_cast<off_t>(8 + header.size() + end)) != 0) {
    return fail(ErrorCode::kUnavailable, path + ": cannot grow");
  }
  return end;
}

}  // namespace

std::string release_config_json() {
  const auto repeat = [](const char* value, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += fmt::format("{}, ", value);
    return text;
  };
  return fmt::format(
      R"({{
  "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41",
  "image_token_id": 129264, "tie_word_embeddings": false,
  "quantization_config": {{"quant_method": "fp8", "activation_scheme": "dynamic",
    "weight_block_size": [32, 32], "scale_fmt": "ue8m0", "expert_dtype": "fp4"}},
  "text_config": {{
    "model_type": "deepseek_v41_text", "vocab_size": 129280, "hidden_size": 5120,
    "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 1,
    "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1280, "o_groups": 8,
    "o_lora_rank": 1024, "hidden_act": "silu", "swiglu_limit": 10.0,
    "moe_intermediate_size": 2304, "n_routed_experts": 384, "n_shared_experts": 1,
    "num_experts_per_tok": 6, "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc",
    "norm_topk_prob": true, "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-20,
    "max_position_embeddings": 1048576, "rope_theta": 10000, "compress_rope_theta": 160000,
    "rope_scaling": {{"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
      "original_max_position_embeddings": 65536}},
    "sliding_window": 128, "compress_ratios": [{}{}{}0, 0, 0],
    "kv_source_layer_ids": [2, 8, 14, 20],
    "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512,
    "candidate_source_layer_id": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
    "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682],
    "engram_max_ngram_size": 4, "engram_vocab_size": 16000000, "engram_n_heads": 8,
    "engram_head_dim": 256, "engram_pad_token_id": 2, "engram_compressed_vocab_size": 99092,
    "num_nextn_predict_layers": 3, "dspark_block_size": 5, "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256,
    "dspark_n_routed_experts": 128, "dspark_num_experts_per_tok": 3,
    "tie_word_embeddings": false, "bos_token_id": 0, "eos_token_id": 1}},
  "vision_config": {{
    "model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024,
    "num_attention_heads": 16, "intermediate_size": 2816, "patch_size": 14, "rope_theta": 10000,
    "downsample_ratio": 3, "max_image_tokens": 1024, "min_pixels": 295936, "max_wh_ratio": null}}
}})",
      repeat("0", 2), repeat("2", 18), repeat("1", 20));
}

Result<SparsePlan> plan_sparse_checkpoint(const std::string& config_json) {
  TRY_ASSIGN(const ModelConfig config, parse_config(config_json));
  const Layout layout(config);
  SparsePlan plan;
  plan.config_json = config_json;
  plan.shards.resize(layout.num_shards());
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    plan.shards[i].file_name =
        fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plan.shards.size());
  }
  for (ExpectedTensor& tensor : expected_tensors(config)) {
    plan.shards[layout.shard_of(tensor)].tensors.push_back(std::move(tensor));
  }
  return plan;
}

Result<void> write_sparse_checkpoint(const SparsePlan& plan, const std::string& directory) {
  uint64_t total_size = 0;
  std::string weight_map;
  for (const SparseShard& shard : plan.shards) {
    TRY_ASSIGN(const uint64_t shard_bytes, write_shard(shard, directory));
    total_size += shard_bytes;
    for (const ExpectedTensor& tensor : shard.tensors) {
      weight_map += fmt::format("{}\n    \"{}\": \"{}\"", weight_map.empty() ? "" : ",",
                                tensor.name, shard.file_name);
    }
  }
  TRY(write_file(directory + "/model.safetensors.index.json",
                 fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n"
                             "  }}\n}}\n",
                             total_size, weight_map)));
  return write_file(directory + "/config.json", plan.config_json);
}

TemporaryFolder::TemporaryFolder()
    : path_(std::filesystem::temp_directory_path() / "yeoul-XXXXXX") {
  CHECK(::mkdtemp(path_.data()) != nullptr, "no temporary folder {}", path_);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace yeoul
