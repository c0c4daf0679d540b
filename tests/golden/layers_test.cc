// Layer by layer against the reference's own intermediates: each layer gets the reference's input,
// so errors do not build up. Tolerances: golden README; the exact path must match everything.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "support/golden_files.h"
#include "support/model_harness.h"
#include "tensor/formats/bf16.h"

namespace yeoul {
namespace {

constexpr double kFloatTolerance = 0.005;  // relative rms per tensor
constexpr double kExactTolerance = 1e-5;   // largest absolute difference

const std::set<std::string_view> kIntegerTensors = {"experts", "selected", "engram_rows",
                                                    "candidate_mask"};

// The embedding is the first of the identical streams [T, C, H].
Trace::Tensor first_copy(const Trace::Tensor& streams) {
  Trace::Tensor embed{streams.name, streams.layer, {streams.shape[0], streams.shape[2]}, {}};
  for (int64_t t = 0; t < streams.shape[0]; ++t) {
    const auto begin = streams.values.begin() + t * streams.shape[1] * streams.shape[2];
    embed.values.insert(embed.values.end(), begin, begin + streams.shape[2]);
  }
  return embed;
}

// The candidate mask [T, rows] of the golden data from our list of blocks [T, blocks].
std::vector<float> mask_of_pool(const Trace::Tensor& pool, int64_t num_rows, int64_t block_size) {
  std::vector<float> mask(static_cast<size_t>(pool.shape[0] * num_rows));
  for (size_t i = 0; i < pool.values.size(); ++i) {
    if (pool.values[i] < 0) continue;
    const int64_t t = static_cast<int64_t>(i) / pool.shape[1];
    const int64_t begin = static_cast<int64_t>(pool.values[i]) * block_size;
    for (int64_t row = begin; row < std::min(begin + block_size, num_rows); ++row) {
      mask[static_cast<size_t>(t * num_rows + row)] = 1;
    }
  }
  return mask;
}

class LayerGolden : public testing::TestWithParam<Accumulate> {
 protected:
  // Replays the dump's prompt with each layer fed from the dump; compares every traced tensor that
  // the dump holds. Returns how many were compared.
  void replay(const std::string& name, std::vector<TokenId> tokens,
              const std::vector<uint8_t>& is_image, const std::vector<Bf16>& embeds,
              const std::map<std::string, golden::Array>& dump) {
    ModelHarness model({.accumulate = GetParam()});
    const Trace trace{
        [&](const Trace::Tensor& tensor) {
          if (tensor.name == "embed") return compare(name, first_copy(tensor), dump);
          if (tensor.name != "pool") return compare(name, tensor, dump);
          const auto mask = dump.find("L" + std::to_string(tensor.layer) + ".candidate_mask");
          if (mask == dump.end()) return;
          candidate_mask_ = mask->second;
          compare(
              name,
              {"candidate_mask",
               tensor.layer,
               {},
               mask_of_pool(tensor, candidate_mask_.width(), model.config().candidate_block_size)},
              dump);
        },
        [&](int32_t layer, Bf16* streams, float* pre) {
          if (layer == 0) return;
          load_input(dump, layer - 1, streams, pre);
        }};
    model.step({{.tokens = std::move(tokens), .is_image = is_image, .embeds = embeds}}, &trace);
    expect_all_compared(dump);
  }

  static void load_input(const std::map<std::string, golden::Array>& dump, int32_t layer,
                         Bf16* streams, float* pre) {
    const std::string prefix = "L" + std::to_string(layer) + ".";
    const golden::Array& x = dump.at(prefix + "X");
    const golden::Array& p = dump.at(prefix + "hc_ffn_pre");
    for (size_t i = 0; i < x.values.size(); ++i) {
      streams[i] = to_bf16(static_cast<float>(x.values[i]));
    }
    for (size_t i = 0; i < p.values.size(); ++i) pre[i] = static_cast<float>(p.values[i]);
  }

  void compare(const std::string& name, const Trace::Tensor& tensor,
               const std::map<std::string, golden::Array>& dump) {
    std::string key(tensor.name);
    if (tensor.layer >= 0) key = "L" + std::to_string(tensor.layer) + "." + key;
    const auto found = dump.find(key);
    if (found == dump.end()) return;
    const golden::Array& expected = found->second;
    const std::string what = name + " " + key;
    ASSERT_EQ(tensor.values.size(), expected.values.size()) << what;
    compared_.insert(key);
    double worst = 0;
    bool is_finite = true;
    for (size_t i = 0; i < expected.values.size(); ++i) {
      const double a = tensor.values[i], b = expected.values[i];
      // We score candidates only; the dump holds the scores before the mask.
      const bool is_masked = tensor.name == "index_scores" && !candidate_mask_.values.empty() &&
                             candidate_mask_.values[i] == 0;
      if (is_masked && a == -HUGE_VAL) {
        is_finite = false;
      } else if (std::isinf(b) || std::isinf(a)) {
        ASSERT_EQ(a, b) << what << " at " << i;
        is_finite = false;
      } else {
        worst = std::max(worst, std::fabs(a - b));
      }
    }
    if (kIntegerTensors.contains(tensor.name) || GetParam() == Accumulate::kDouble) {
      EXPECT_LE(worst, kIntegerTensors.contains(tensor.name) ? 0 : kExactTolerance) << what;
    } else if (is_finite) {
      EXPECT_LE(golden::relative_rms(tensor.values, expected.values), kFloatTolerance) << what;
    } else {
      EXPECT_LE(worst, 0.01) << what;
    }
  }

  // Fails for every tensor of the dump that the run did not produce, drafting apart.
  void expect_all_compared(const std::map<std::string, golden::Array>& dump) {
    for (const auto& [key, array] : dump) {
      const bool is_left_out = key.starts_with("mtp") || key == "taps" || key == "tokens" ||
                               key == "image" || key.starts_with("vision");
      EXPECT_TRUE(is_left_out || compared_.contains(key)) << key << " was not compared";
    }
  }

  std::set<std::string> compared_;
  golden::Array candidate_mask_;  // of the candidate source, once it has run
};

std::vector<TokenId> tokens_of(const std::string& name) {
  return golden::read_json("tests/golden/data/cases/" + name + "/case.json")["tokens"]
      .get<std::vector<TokenId>>();
}

TEST_P(LayerGolden, every_intermediate_of_an_odd_prompt_matches) {
  replay("len023_odd", tokens_of("len023_odd"), {}, {},
         golden::read_safetensors("tests/golden/data/dumps/len023_odd.safetensors"));
}

TEST_P(LayerGolden, layer_outputs_of_a_longer_prompt_match) {
  replay("len064", tokens_of("len064"), {}, {},
         golden::read_safetensors("tests/golden/data/dumps/len064.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(Paths, LayerGolden,
                         testing::Values(Accumulate::kFloat, Accumulate::kDouble),
                         [](const auto& path) {
                           return path.param == Accumulate::kFloat ? "float" : "exact";
                         });

}  // namespace
}  // namespace yeoul
