#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "base/json.h"

namespace yeoul {
namespace {

using testing::HasSubstr;

Json tiny_config() {
  std::ifstream file("models/tiny-random/config.json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return *parse_json(text);
}

Result<ModelConfig> parse(const Json& json) {
  return parse_config(json.dump());
}

TEST(Config, reads_every_field_of_the_embedded_checkpoint) {
  const auto config = parse(tiny_config());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->vocab_size, 512);
  EXPECT_EQ(config->hidden_size, 96);
  EXPECT_EQ(config->num_hidden_layers, 10);
  EXPECT_EQ(config->num_attention_heads, 4);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->qk_rope_head_dim, 16);
  EXPECT_EQ(config->q_lora_rank, 64);
  EXPECT_EQ(config->o_groups, 2);
  EXPECT_EQ(config->o_lora_rank, 32);
  EXPECT_EQ(config->swiglu_limit, 2.0f);
  EXPECT_EQ(config->moe_intermediate_size, 64);
  EXPECT_EQ(config->n_routed_experts, 12);
  EXPECT_EQ(config->n_shared_experts, 1);
  EXPECT_EQ(config->num_experts_per_tok, 3);
  EXPECT_TRUE(config->norm_topk_prob);
  EXPECT_EQ(config->routed_scaling_factor, 1.5f);
  EXPECT_EQ(config->gate_temp, 1.0f);
  EXPECT_EQ(config->rms_norm_eps, 1e-20);
  EXPECT_EQ(config->max_position_embeddings, 4096);
  EXPECT_EQ(config->rope_theta, 10000);
  EXPECT_EQ(config->compress_rope_theta, 1000);
  EXPECT_EQ(config->rope_scaling.factor, 16);
  EXPECT_EQ(config->rope_scaling.beta_fast, 8);
  EXPECT_EQ(config->rope_scaling.beta_slow, 1);
  EXPECT_EQ(config->rope_scaling.original_max_position_embeddings, 1024);
  EXPECT_EQ(config->sliding_window, 16);
  EXPECT_EQ(config->compress_ratios, (std::vector<int32_t>{0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(config->kv_source_layer_ids, (std::vector<int32_t>{2, 4, 6}));
  EXPECT_EQ(config->index_source_layer_ids, (std::vector<int32_t>{2, 4, 6, 8}));
  EXPECT_EQ(config->index_n_heads, 8);
  EXPECT_EQ(config->index_head_dim, 32);
  EXPECT_EQ(config->index_topk, 8);
  EXPECT_EQ(config->candidate_source_layer_id, 6);
  EXPECT_EQ(config->candidate_topk_blocks, 4);
  EXPECT_EQ(config->candidate_block_size, 4);
  EXPECT_EQ(config->hc_mult, 4);
  EXPECT_EQ(config->hc_sinkhorn_iters, 20);
  EXPECT_EQ(config->hc_eps, 1e-6);
}

TEST(Config, reads_engram_dspark_tokens_and_vision_of_the_embedded_checkpoint) {
  const auto config = parse(tiny_config());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->engram_layer_ids, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(config->engram_num_embeddings, (std::vector<int64_t>{434, 606}));
  EXPECT_EQ(config->engram_max_ngram_size, 4);
  EXPECT_EQ(config->engram_vocab_size, 61);
  EXPECT_EQ(config->engram_n_heads, 2);
  EXPECT_EQ(config->engram_head_dim, 64);
  EXPECT_EQ(config->engram_pad_token_id, 2);
  EXPECT_EQ(config->engram_compressed_vocab_size, 341);
  EXPECT_EQ(config->num_nextn_predict_layers, 3);
  EXPECT_EQ(config->dspark_block_size, 5);
  EXPECT_EQ(config->dspark_noise_token_id, 506);
  EXPECT_EQ(config->dspark_target_layer_ids, (std::vector<int32_t>{7, 8, 9}));
  EXPECT_EQ(config->dspark_markov_rank, 32);
  EXPECT_EQ(config->dspark_n_routed_experts, 8);
  EXPECT_EQ(config->dspark_num_experts_per_tok, 2);
  EXPECT_EQ(config->bos_token_id, 0);
  EXPECT_EQ(config->eos_token_id, 1);
  EXPECT_EQ(config->image_token_id, 507);
  ASSERT_TRUE(config->vision);
  EXPECT_EQ(config->vision->num_hidden_layers, 2);
  EXPECT_EQ(config->vision->hidden_size, 64);
  EXPECT_EQ(config->vision->num_attention_heads, 2);
  EXPECT_EQ(config->vision->intermediate_size, 96);
  EXPECT_EQ(config->vision->patch_size, 4);
  EXPECT_EQ(config->vision->downsample_ratio, 3);
  EXPECT_EQ(config->vision->max_image_tokens, 48);
  EXPECT_EQ(config->vision->min_pixels, 576);
  EXPECT_EQ(config->vision->rope_theta, 10000);
}

TEST(Config, each_layer_knows_its_half_and_its_kv_source) {
  const auto config = parse(tiny_config());
  ASSERT_TRUE(config);
  EXPECT_EQ(config->decoder_start(), 6);
  const std::vector<int32_t> expected = {-1, -1, 2, 2, 4, 4, 6, 6, 6, 6};
  for (int32_t layer = 0; layer < 10; ++layer) {
    EXPECT_EQ(config->kv_source_of(layer), expected[static_cast<size_t>(layer)]) << layer;
  }
}

TEST(Config, unknown_keys_are_accepted_and_optional_ones_have_defaults) {
  Json json = tiny_config();
  json["transformers_version"] = "5.0";
  json["text_config"]["fmt"] = {{"nested", {1, 2}}};
  for (const char* key : {"engram_compressed_vocab_size", "engram_num_embeddings",
                          "n_shared_experts", "norm_topk_prob", "hidden_act", "bos_token_id",
                          "eos_token_id", "routed_scaling_factor", "engram_pad_token_id"}) {
    json["text_config"].erase(key);
  }
  json["vision_config"] = nullptr;
  json.erase("image_token_id");
  const auto config = parse(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->vision);
  EXPECT_EQ(config->image_token_id, -1);
  EXPECT_EQ(config->engram_compressed_vocab_size, 0);
  EXPECT_TRUE(config->engram_num_embeddings.empty());
  EXPECT_EQ(config->engram_pad_token_id, 2);
  EXPECT_EQ(config->eos_token_id, 1);
}

TEST(Config, a_model_without_drafts_needs_no_dspark_fields) {
  Json json = tiny_config();
  Json& text = json["text_config"];
  text["num_nextn_predict_layers"] = 0;
  text["compress_ratios"] = {0, 0, 2, 2, 2, 2, 1, 1, 1, 1};
  for (const char* key :
       {"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids"}) {
    text.erase(key);
  }
  const auto config = parse(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_nextn_predict_layers, 0);
}

TEST(Config, both_spellings_of_the_engram_pad_token_are_read) {
  Json json = tiny_config();
  json["text_config"].erase("engram_pad_token_id");
  json["text_config"]["engram_pad_id"] = 3;
  EXPECT_EQ(parse(json)->engram_pad_token_id, 3);
  json["text_config"]["engram_pad_token_id"] = 3;
  EXPECT_EQ(parse(json)->engram_pad_token_id, 3);
}

TEST(Config, special_tokens_may_stand_at_the_top_and_the_text_config_wins) {
  Json json = tiny_config();
  json["text_config"].erase("eos_token_id");
  json["eos_token_id"] = 5;
  EXPECT_EQ(parse(json)->eos_token_id, 5);
  json["text_config"]["eos_token_id"] = 6;
  EXPECT_EQ(parse(json)->eos_token_id, 6);
}

TEST(Config, rope_type_is_an_accepted_spelling_of_type) {
  Json json = tiny_config();
  json["text_config"]["rope_scaling"].erase("type");
  json["text_config"]["rope_scaling"]["rope_type"] = "yarn";
  EXPECT_TRUE(parse(json));
}

TEST(Config, text_that_is_no_config_is_corrupt) {
  for (const char* text : {"", "{", "[]", "3", "{}\xff", "{\"a\": 1, \"a\": 2}"}) {
    const auto config = parse_config(text);
    ASSERT_FALSE(config) << text;
    EXPECT_EQ(config.error().code, ErrorCode::kCorrupt) << text;
    EXPECT_THAT(config.error().message, testing::StartsWith("config.json: ")) << text;
  }
}

// One change to the embedded checkpoint's config, and what is said about it.
struct Refusal {
  const char* pointer;  // JSON pointer of the value
  const char* value;    // JSON text to put there; nullptr removes it
  ErrorCode code;
  const char* message;
};

class ConfigRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRefusal, names_the_key_the_expected_and_the_found) {
  const Refusal& refusal = GetParam();
  Json json = tiny_config();
  const Json::json_pointer pointer(refusal.pointer);
  if (refusal.value == nullptr) {
    json[pointer.parent_pointer()].erase(pointer.back());
  } else {
    json[pointer] = Json::parse(refusal.value);
  }
  const auto config = parse(json);
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, refusal.code) << config.error().message;
  EXPECT_THAT(config.error().message, HasSubstr(refusal.message));
}

constexpr ErrorCode kCorrupt = ErrorCode::kCorrupt;
constexpr ErrorCode kUnsupported = ErrorCode::kUnsupported;

INSTANTIATE_TEST_SUITE_P(
    Architecture, ConfigRefusal,
    testing::Values(
        Refusal{"/model_type", "\"deepseek_v4\"", kUnsupported,
                "config.json.model_type: \"deepseek_v41\" expected, \"deepseek_v4\" found"},
        Refusal{"/model_type", nullptr, kCorrupt, "config.json.model_type: missing"},
        Refusal{"/architectures", "[\"LlamaForCausalLM\"]", kUnsupported, "LlamaForCausalLM"},
        Refusal{"/tie_word_embeddings", "true", kUnsupported, "false expected, true found"},
        Refusal{"/text_config", nullptr, kCorrupt, "config.json.text_config: missing"},
        Refusal{"/text_config", "[1]", kCorrupt, "text_config: an object expected, [1] found"},
        Refusal{"/text_config/hidden_act", "\"gelu\"", kUnsupported, "text_config.hidden_act"},
        Refusal{"/text_config/scoring_func", "\"softmax\"", kUnsupported, "sqrtsoftplus"},
        Refusal{"/text_config/topk_method", "\"greedy\"", kUnsupported, "noaux_tc"},
        Refusal{"/text_config/n_shared_experts", "2", kUnsupported, "1 expected, 2 found"},
        Refusal{"/text_config/num_key_value_heads", "4", kUnsupported, "1 expected, 4 found"},
        Refusal{"/quantization_config", nullptr, kUnsupported, "quantization_config: missing"},
        Refusal{"/quantization_config/quant_method", "\"awq\"", kUnsupported, "\"fp8\" expected"},
        Refusal{"/quantization_config/weight_block_size", "[128, 128]", kUnsupported,
                "[32,32] expected, [128,128] found"},
        Refusal{"/quantization_config/scale_fmt", "\"float\"", kUnsupported, "ue8m0"},
        Refusal{"/quantization_config/expert_dtype", nullptr, kCorrupt, "expert_dtype: missing"},
        Refusal{"/quantization_config/activation_scheme", "\"static\"", kUnsupported, "dynamic"},
        Refusal{"/text_config/rope_scaling", nullptr, kCorrupt, "rope_scaling: missing"},
        Refusal{"/text_config/rope_scaling/type", "\"linear\"", kUnsupported, "\"yarn\" expected"},
        Refusal{"/vision_config/max_wh_ratio", "8", kUnsupported, "null expected, 8 found"}));

INSTANTIATE_TEST_SUITE_P(
    Values, ConfigRefusal,
    testing::Values(
        Refusal{"/text_config/hidden_size", nullptr, kCorrupt, "text_config.hidden_size: missing"},
        Refusal{"/text_config/hidden_size", "null", kCorrupt, "text_config.hidden_size: missing"},
        Refusal{"/text_config/hidden_size", "-1", kCorrupt, "from 1 to 1048576 expected, -1 found"},
        Refusal{"/text_config/hidden_size", "96.5", kCorrupt, "an integer from"},
        Refusal{"/text_config/hidden_size", "\"96\"", kCorrupt, "an integer from"},
        Refusal{"/text_config/hidden_size", "18446744073709551615", kCorrupt,
                "18446744073709551615 found"},
        Refusal{"/text_config/swiglu_limit", "0", kCorrupt, "text_config.swiglu_limit"},
        Refusal{"/text_config/swiglu_limit", "1e300", kCorrupt, "text_config.swiglu_limit"},
        Refusal{"/text_config/rms_norm_eps", "\"tiny\"", kCorrupt, "a number from 0 up expected"},
        Refusal{"/text_config/norm_topk_prob", "1", kCorrupt, "true or false expected, 1 found"},
        Refusal{"/text_config/compress_ratios", "2", kCorrupt, "a list expected, 2 found"},
        Refusal{"/text_config/compress_ratios/3", "4", kCorrupt,
                "compress_ratios[3]: an integer from 0 to 2 expected, 4 found"},
        Refusal{"/text_config/engram_pad_id", "3", kUnsupported, "2 expected, 3 found"},
        Refusal{"/text_config/engram_num_embeddings/0", "0", kCorrupt, "engram_num_embeddings[0]"},
        Refusal{"/text_config/rope_scaling/beta_slow", "0", kCorrupt, "rope_scaling.beta_slow"},
        Refusal{"/text_config/max_position_embeddings", "33554432", kCorrupt,
                "max_position_embeddings"},
        Refusal{"/vision_config", "7", kCorrupt, "vision_config: an object expected, 7 found"},
        Refusal{"/vision_config/patch_size", nullptr, kCorrupt, "patch_size: missing"},
        Refusal{"/image_token_id", nullptr, kCorrupt, "image_token_id: missing"}));

INSTANTIATE_TEST_SUITE_P(
    Contradictions, ConfigRefusal,
    testing::Values(
        Refusal{"/text_config/compress_ratios", "[0, 0, 2, 1]", kCorrupt,
                "13 entries (num_hidden_layers 10 + num_nextn_predict_layers 3) expected, 4 found"},
        Refusal{"/text_config/compress_ratios/7", "2", kUnsupported,
                "0s, then 2s, then 1s expected, 2 after 1 found at layer 7"},
        Refusal{"/text_config/compress_ratios", "[0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 0]",
                kUnsupported, "no layer of ratio 1"},
        Refusal{"/text_config/compress_ratios/12", "1", kUnsupported, "DSpark stage 2, 1 found"},
        Refusal{"/text_config/kv_source_layer_ids", "[]", kCorrupt, "layer 2 of ratio 2 has no"},
        Refusal{"/text_config/kv_source_layer_ids", "[2, 4]", kCorrupt, "layer 6 of ratio 1 has"},
        Refusal{"/text_config/kv_source_layer_ids", "[1, 2, 4, 6]", kCorrupt,
                "layer 1, which is window-only"},
        Refusal{"/text_config/kv_source_layer_ids", "[4, 2, 6]", kCorrupt,
                "must ascend, [4, 2, 6]"},
        Refusal{"/text_config/kv_source_layer_ids", "[2, 4, 6, 10]", kCorrupt,
                "names layer 10, but num_hidden_layers is 10"},
        Refusal{"/text_config/kv_source_layer_ids", "[2, 4, 6, 8]", kUnsupported,
                "one source in the decoder half, layer 6, expected, layer 8 found"},
        Refusal{"/text_config/index_source_layer_ids", "[0, 2, 4, 6, 8]", kCorrupt,
                "index_source_layer_ids names layer 0, which is window-only"},
        Refusal{"/text_config/index_source_layer_ids", "[2, 6, 8]", kUnsupported,
                "kv_source_layer_ids names layer 4, which index_source_layer_ids does not"},
        Refusal{"/text_config/candidate_source_layer_id", "8", kUnsupported,
                "the first decoder layer 6 expected, 8 found"},
        Refusal{"/text_config/index_topk", "17", kUnsupported, "is less than index_topk 17"},
        Refusal{"/text_config/hidden_size", "100", kUnsupported,
                "hidden_size: a multiple of 32 (the quantisation group) expected, 100 found"},
        Refusal{"/text_config/moe_intermediate_size", "65", kUnsupported, "moe_intermediate_size"},
        Refusal{"/text_config/o_lora_rank", "48", kUnsupported, "o_lora_rank: a multiple of 32"},
        Refusal{"/text_config/head_dim", "1056", kUnsupported, "up to 1024 expected, 1056 found"},
        Refusal{"/text_config/index_head_dim", "1056", kUnsupported, "index_head_dim: up to 1024"},
        Refusal{"/text_config/engram_head_dim", "40", kUnsupported, "engram_head_dim"},
        Refusal{"/text_config/num_attention_heads", "5", kCorrupt, "no multiple of o_groups 2"},
        Refusal{"/text_config/qk_rope_head_dim", "48", kCorrupt, "index_head_dim 32 expected, 48"},
        Refusal{"/text_config/qk_rope_head_dim", "15", kCorrupt, "an even number"},
        Refusal{"/text_config/rope_scaling/beta_fast", "0.5", kCorrupt, "is below beta_slow 1"},
        Refusal{"/text_config/num_experts_per_tok", "13", kCorrupt,
                "num_experts_per_tok 13 exceeds n_routed_experts 12"},
        Refusal{"/text_config/dspark_num_experts_per_tok", "9", kCorrupt,
                "dspark_num_experts_per_tok 9 exceeds dspark_n_routed_experts 8"},
        Refusal{"/text_config/n_routed_experts", "65536", kUnsupported, "655384 experts in all"},
        Refusal{"/text_config/engram_layer_ids", "[1, 12]", kCorrupt, "names layer 12"},
        Refusal{"/text_config/engram_num_embeddings", "[434]", kCorrupt,
                "2 entries (one per engram_layer_ids) expected, 1 found"},
        Refusal{"/text_config/engram_compressed_vocab_size", "513", kCorrupt,
                "513 exceeds vocab_size 512"},
        Refusal{"/text_config/dspark_target_layer_ids", "[]", kCorrupt, "none found"},
        Refusal{"/text_config/dspark_target_layer_ids", "[5, 9]", kUnsupported,
                "decoder layers (from 6) expected, 5 found"},
        Refusal{"/text_config/eos_token_id", "512", kCorrupt,
                "eos_token_id 512 is outside the vocabulary of 512"},
        Refusal{"/text_config/dspark_noise_token_id", "600", kCorrupt, "dspark_noise_token_id 600"},
        Refusal{"/vision_config/hidden_size", "68", kCorrupt, "no multiple of 4 *"}));

}  // namespace
}  // namespace yeoul
