#include "support/random_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/counter_rng.h"
#include "checkpoint/expected_tensors.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8_e4m3.h"

namespace yeoul {
namespace {

constexpr double kFp8CodeDeviation = 64;     // most codes have full precision, none saturates
constexpr double kFp4CodeDeviation = 3.022;  // of the 15 different e2m1 values, each alike

// How the values of a tensor spread: a matrix by gain / sqrt(inputs), anything else by gain.
struct Spread {
  std::string_view part;  // of the tensor's name; the first match counts
  double mean = 0;
  double gain = 1;
};

// Each block adds about a tenth of the residual's size; attention logits have a standard deviation
// near 2, logits of the head one near 3.5.
constexpr Spread kSpreads[] = {
    {"norm.weight", 1, 0.2},
    {"hc_attn_base", 0, 0.5},
    {"hc_ffn_base", 0, 0.5},
    {"hc_attn_scale", 0.5, 0.1},
    {"hc_ffn_scale", 0.5, 0.1},
    {"indexer.wq_b", 0, 1.5},
    {"weights_proj", 0, 4},
    {"attn.wq_b", 0, 1.4},
    {"attn.wo_b", 0, 0.3},
    {"compressor.wgate", 0, 1.5},
    {"gate.weight", 0, 2},
    {"gate.bias_vl", 0, 0.6},
    {"gate.bias", 0, 0.3},
    {".w1", 0, 1.4},
    {".w3", 0, 1.4},
    {".w2", 0, 0.2},
    {"engram.wkv", 0, 0.35},
    {"engram.q_weight", 1, 0.3},
    {"engram.k_weight", 1, 0.3},
    {"head.weight", 0, 3.5},
    {"", 0, 1},
};

const Spread& spread_of(const std::string& name) {
  const Spread* spread = kSpreads;
  while (name.find(spread->part) == std::string::npos) ++spread;
  return *spread;
}

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> ends) {
  for (const std::string_view end : ends) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

// Standard deviation of the values of a tensor, or of those that a scale tensor belongs to.
double deviation_of(const ExpectedTensor& tensor) {
  if (tensor.name == "embed.weight") return 2.6;
  const double gain = spread_of(tensor.name).gain;
  const bool is_matrix = tensor.shape.size() == 2 &&
                         !ends_with_any(tensor.name, {"q_weight", "k_weight"}) &&
                         tensor.name.find(".engram.embed.") == std::string::npos;
  if (!is_matrix) return gain;
  const int64_t inputs_per_element = tensor.dtype == Dtype::kF8E8m0 ? 32
                                     : tensor.dtype == Dtype::kI8   ? 2
                                                                    : 1;
  return gain / std::sqrt(static_cast<double>(inputs_per_element * tensor.shape.back()));
}

// Values are functions of (seed, tensor name, index).
class RandomValues {
 public:
  RandomValues(uint64_t seed, const std::string& name) : key_(mix64(seed)) {
    for (const char c : name) key_ = mix64(key_ ^ static_cast<uint8_t>(c));
  }
  uint64_t bits(size_t i) const { return counter_bits(key_, i); }
  double unit(size_t i) const { return unit_interval(bits(i)); }
  // Sum of four uniform numbers: mean 0, standard deviation 1, at most 3.47.
  double normal(size_t i) const {
    double sum = 0;
    for (int part = 0; part < 4; ++part) {
      sum += static_cast<double>(bits(i) >> (16 * part) & 0xFFFF);
    }
    return (sum - 131070.0) / 37837.2272;
  }

 private:
  uint64_t key_;
};

// Two e2m1 codes; code 8 would be a second zero.
uint8_t code_pair(uint64_t bits) {
  const uint64_t low = bits % 15, high = (bits >> 32) % 15;
  const auto code = [](uint64_t n) { return n + (n >= 8 ? 1 : 0); };
  return static_cast<uint8_t>(code(low) | code(high) << 4);
}

template <typename Value, typename At>
std::string elements(size_t count, const At& at) {
  std::string bytes(count * sizeof(Value), '\0');
  for (size_t i = 0; i < count; ++i) {
    const Value value = at(i);
    std::memcpy(bytes.data() + i * sizeof(Value), &value, sizeof(Value));
  }
  return bytes;
}

std::string random_bytes(const ExpectedTensor& tensor, uint64_t seed) {
  const RandomValues random(seed, tensor.name);
  const double mean = spread_of(tensor.name).mean, deviation = deviation_of(tensor);
  size_t count = 1;
  for (const int64_t extent : tensor.shape) count *= static_cast<size_t>(extent);
  const auto value = [&](size_t i) {
    return static_cast<float>(mean + deviation * random.normal(i));
  };
  switch (tensor.dtype) {
    case Dtype::kF32:
      return elements<float>(count, value);
    case Dtype::kBf16:
      return elements<Bf16>(count, [&](size_t i) { return to_bf16(value(i)); });
    case Dtype::kF8E4m3:
      return elements<uint8_t>(count, [&](size_t i) {
        return to_e4m3(static_cast<float>(kFp8CodeDeviation * random.normal(i)));
      });
    case Dtype::kI8:
      return elements<uint8_t>(count, [&](size_t i) { return code_pair(random.bits(i)); });
    case Dtype::kF8E8m0: {
      // A power of two up to a factor 2 around the wanted one: neighbouring groups differ.
      const bool is_fp4 = tensor.name.find(".experts.") != std::string::npos;
      const double wanted = deviation / (is_fp4 ? kFp4CodeDeviation : kFp8CodeDeviation);
      return elements<uint8_t>(count, [&](size_t i) {
        return static_cast<uint8_t>(127 + std::lround(std::log2(wanted) + 2 * random.unit(i) - 1));
      });
    }
  }
  return {};
}

Result<void> write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (file) return {};
  return fail(ErrorCode::kUnavailable, path + ": cannot write");
}

// One safetensors file; the order of `tensors` is that of the bytes.
struct Shard {
  std::string file_name;
  std::vector<const ExpectedTensor*> tensors;
};

Result<uint64_t> write_shard(const Shard& shard, const std::string& directory, uint64_t seed) {
  std::string header = "{";
  std::string data;
  for (const ExpectedTensor* tensor : shard.tensors) {
    const size_t begin = data.size();
    data += random_bytes(*tensor, seed);
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          header.size() == 1 ? "" : ",", tensor->name, to_string(tensor->dtype),
                          fmt::join(tensor->shape, ","), begin, data.size());
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string start(8, '\0');
  for (size_t i = 0; i < 8; ++i) start[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  TRY(write_file(directory + "/" + shard.file_name, start + header + data));
  return data.size();
}

// A shard for what stands outside the layers, then one a layer (and one a DSpark stage). The
// layers' tensors are written backwards, so that nobody may rely on their order.
std::vector<Shard> lay_out(const ModelConfig& config, const std::vector<ExpectedTensor>& tensors) {
  std::vector<Shard> shards(
      static_cast<size_t>(1 + config.num_hidden_layers + config.num_nextn_predict_layers));
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].file_name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  const auto number = [](const std::string& name) {
    return std::stoul(name.substr(name.find('.') + 1));
  };
  for (const ExpectedTensor& tensor : tensors) {
    size_t at = 0;
    if (tensor.name.starts_with("layers.")) at = 1 + number(tensor.name);
    if (tensor.name.starts_with("mtp.")) {
      at = 1 + static_cast<size_t>(config.num_hidden_layers) + number(tensor.name);
    }
    std::vector<const ExpectedTensor*>& list = shards[at].tensors;
    list.insert(at == 0 ? list.end() : list.begin(), &tensor);
  }
  return shards;
}

}  // namespace

std::string random_config_json(int window, int top_k) {
  return fmt::format(
      R"({{
  "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41",
  "image_token_id": 507, "tie_word_embeddings": false,
  "quantization_config": {{"quant_method": "fp8", "activation_scheme": "dynamic",
    "weight_block_size": [32, 32], "scale_fmt": "ue8m0", "expert_dtype": "fp4"}},
  "text_config": {{
    "model_type": "deepseek_v41_text", "vocab_size": 512, "hidden_size": 160,
    "num_hidden_layers": 10, "num_attention_heads": 4, "num_key_value_heads": 1,
    "head_dim": 64, "qk_rope_head_dim": 32, "q_lora_rank": 96, "o_groups": 2,
    "o_lora_rank": 32, "hidden_act": "silu", "swiglu_limit": 3.0,
    "moe_intermediate_size": 96, "n_routed_experts": 16, "n_shared_experts": 1,
    "num_experts_per_tok": 4, "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc",
    "norm_topk_prob": true, "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-20,
    "max_position_embeddings": 16384, "rope_theta": 10000, "compress_rope_theta": 40000,
    "rope_scaling": {{"type": "yarn", "factor": 16, "beta_fast": 16, "beta_slow": 1,
      "original_max_position_embeddings": 4096}},
    "sliding_window": {}, "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 1, 1],
    "kv_source_layer_ids": [2, 4, 5], "index_source_layer_ids": [2, 4, 5, 7, 9],
    "index_n_heads": 8, "index_head_dim": 64, "index_topk": {},
    "candidate_source_layer_id": 5, "candidate_topk_blocks": 24, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
    "engram_layer_ids": [1, 4], "engram_num_embeddings": [3144, 3424],
    "engram_max_ngram_size": 4, "engram_vocab_size": 500, "engram_n_heads": 2,
    "engram_head_dim": 64, "engram_pad_token_id": 2, "engram_compressed_vocab_size": 384,
    "num_nextn_predict_layers": 0, "tie_word_embeddings": false,
    "bos_token_id": 0, "eos_token_id": 1}}
}})",
      window, top_k);
}

std::string small_config_json() {
  return R"({
  "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41",
  "image_token_id": 4091, "tie_word_embeddings": false,
  "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic",
    "weight_block_size": [32, 32], "scale_fmt": "ue8m0", "expert_dtype": "fp4"},
  "text_config": {
    "model_type": "deepseek_v41_text", "vocab_size": 4096, "hidden_size": 384,
    "num_hidden_layers": 14, "num_attention_heads": 8, "num_key_value_heads": 1,
    "head_dim": 128, "qk_rope_head_dim": 32, "q_lora_rank": 160, "o_groups": 4,
    "o_lora_rank": 64, "hidden_act": "silu", "swiglu_limit": 3.0,
    "moe_intermediate_size": 192, "n_routed_experts": 32, "n_shared_experts": 1,
    "num_experts_per_tok": 6, "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc",
    "norm_topk_prob": true, "routed_scaling_factor": 1.5, "rms_norm_eps": 1e-20,
    "max_position_embeddings": 16384, "rope_theta": 10000, "compress_rope_theta": 40000,
    "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 16, "beta_slow": 1,
      "original_max_position_embeddings": 4096},
    "sliding_window": 64, "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1],
    "kv_source_layer_ids": [2, 5, 8], "index_source_layer_ids": [2, 5, 8, 10, 12],
    "index_n_heads": 16, "index_head_dim": 64, "index_topk": 64,
    "candidate_source_layer_id": 8, "candidate_topk_blocks": 24, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
    "engram_layer_ids": [1, 5], "engram_num_embeddings": [24562, 25586],
    "engram_max_ngram_size": 4, "engram_vocab_size": 2000, "engram_n_heads": 4,
    "engram_head_dim": 128, "engram_pad_token_id": 2, "engram_compressed_vocab_size": 2589,
    "num_nextn_predict_layers": 0, "tie_word_embeddings": false,
    "bos_token_id": 0, "eos_token_id": 1}
})";
}

Result<void> write_random_checkpoint(const std::string& config_json, const std::string& directory,
                                     uint64_t seed) {
  TRY_ASSIGN(const ModelConfig config, parse_config(config_json));
  const std::vector<ExpectedTensor> tensors = expected_tensors(config);
  uint64_t total_size = 0;
  std::string weight_map;
  for (const Shard& shard : lay_out(config, tensors)) {
    TRY_ASSIGN(const uint64_t shard_bytes, write_shard(shard, directory, seed));
    total_size += shard_bytes;
    for (const ExpectedTensor* tensor : shard.tensors) {
      weight_map += fmt::format("{}\n    \"{}\": \"{}\"", weight_map.empty() ? "" : ",",
                                tensor->name, shard.file_name);
    }
  }
  TRY(write_file(directory + "/model.safetensors.index.json",
                 fmt::format("{{\n  \"metadata\": {{\"total_size\": {}}},\n  \"weight_map\": {{{}\n"
                             "  }}\n}}\n",
                             total_size, weight_map)));
  TRY(write_file(directory + "/config.json", config_json));
  const int64_t classes = config.engram_compressed_vocab_size != 0
                              ? config.engram_compressed_vocab_size
                              : config.vocab_size;
  std::vector<int64_t> token_map(static_cast<size_t>(config.vocab_size));
  for (size_t i = 0; i < token_map.size(); ++i) {
    token_map[i] = static_cast<int64_t>(i) % classes;
  }
  return write_file(directory + "/engram_map.json",
                    fmt::format("{{\"token_map\": [{}]}}\n", fmt::join(token_map, ",")));
}

}  // namespace yeoul
