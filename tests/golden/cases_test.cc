// Whole prompts against the reference: logits of every stored position, then greedy continuation by
// decode steps. The exact path must agree in everything; the float path within the rules of
// tests/golden/README.md, each allowed flip named here.

#include <gtest/gtest.h>

#include <cmath>

#include "base/check.h"
#include "support/golden_files.h"
#include "support/model_harness.h"

namespace yeoul {
namespace {

constexpr double kExactTolerance = 1e-5;
constexpr double kFlipTolerance = 0.06;    // relative rms after a rounding flip
constexpr double kGreedySlack = 0.5;       // a differing greedy token may be this far from the top
constexpr double kNoFlipTolerance = 1e-3;  // cases that no summation order changes

struct Case {
  const char* name;
  // The float path meets no rounding flip in the prompt: every logit within kNoFlipTolerance.
  bool is_clean = true;
  // How far below the top a golden greedy token may lie when the float path prefers another one.
  double greedy_slack = kGreedySlack;
};

// The flips of the float path, by name. The exact path has none, and layer by layer both agree
// (layers_test), so each is a rounding tie that another summation order decides otherwise.
const Case kCases[] = {
    {"len001"},
    {"len002"},
    {"len003"},
    {"len015_window_minus_1", false},  // one BF16 ulp, largest logit difference 0.004
    {"len016_window"},
    {"len017_window_plus_1"},
    // 0.004 in the prompt; one flip while decoding leaves a golden token 0.56 below the top
    // (reference's own spread here: 0.17).
    {"len018_topk_ratio2", false, 0.6},
    {"len023_odd"},
    {"len024_even"},
    {"len037_candidates"},
    {"len064", false},  // largest logit difference 0.88 (reference's own spread: 0.90)
    {"len101", false},  // largest logit difference 0.94 (reference's own spread: 0.94)
};

std::string folder(const std::string& name) {
  return "tests/golden/data/cases/" + name + "/";
}

// Logits of the last rows.size() positions against the stored ones.
double worst_difference(const std::vector<std::vector<float>>& logits,
                        const golden::Array& stored) {
  double worst = 0;
  const auto width = static_cast<size_t>(stored.width());
  const size_t skip = logits.size() - static_cast<size_t>(stored.rows());
  for (size_t i = 0; i < stored.values.size(); ++i) {
    worst = std::max(worst, std::fabs(logits[skip + i / width][i % width] - stored.values[i]));
  }
  return worst;
}

double total_relative_rms(const std::vector<std::vector<float>>& logits,
                          const golden::Array& stored) {
  std::vector<float> last;
  for (size_t t = logits.size() - static_cast<size_t>(stored.rows()); t < logits.size(); ++t) {
    last.insert(last.end(), logits[t].begin(), logits[t].end());
  }
  return golden::relative_rms(last, stored.values);
}

class CaseGolden : public testing::TestWithParam<Case> {};

TEST_P(CaseGolden, exact_path_equals_the_reference) {
  const std::string path = folder(GetParam().name);
  const Json info = golden::read_json(path + "case.json");
  const auto tokens = info["tokens"].get<std::vector<TokenId>>();
  ModelHarness model({.accumulate = Accumulate::kDouble});
  const std::vector<std::vector<float>> logits = model.prefill(0, tokens);
  EXPECT_LE(worst_difference(logits, golden::read_npy(path + "logits.npy")), kExactTolerance);

  const golden::Array top = golden::read_npy(path + "top20_ids.npy");
  const golden::Array sums = golden::read_npy(path + "checksum.npy");
  for (size_t t = 0; t < tokens.size(); ++t) {
    EXPECT_EQ(argmax(logits[t]), static_cast<TokenId>(top.values[t * 20])) << "position " << t;
    double sum = 0, square = 0;
    for (const float x : logits[t]) sum += x, square += double{x} * double{x};
    EXPECT_NEAR(sum, sums.values[2 * t], 1e-3) << "position " << t;
    EXPECT_NEAR(square, sums.values[2 * t + 1], 1e-2) << "position " << t;
  }

  const auto greedy = info["greedy"].get<std::vector<TokenId>>();
  const golden::Array greedy_logits = golden::read_npy(path + "greedy_logits.npy");
  std::vector<float> last = logits.back();
  for (size_t i = 0; i < greedy.size(); ++i) {
    ASSERT_EQ(argmax(last), greedy[i]) << "greedy token " << i;
    if (i < static_cast<size_t>(greedy_logits.rows())) {
      const auto begin = greedy_logits.values.begin() + static_cast<int64_t>(i * last.size());
      for (size_t v = 0; v < last.size(); ++v) {
        ASSERT_NEAR(last[v], begin[static_cast<int64_t>(v)], kExactTolerance) << i << " " << v;
      }
    }
    last = model.decode(0, greedy[i]);
  }
}

TEST_P(CaseGolden, float_path_keeps_the_rules) {
  const std::string path = folder(GetParam().name);
  const Json info = golden::read_json(path + "case.json");
  const auto tokens = info["tokens"].get<std::vector<TokenId>>();
  ModelHarness model({});
  const std::vector<std::vector<float>> logits = model.prefill(0, tokens);
  const golden::Array stored = golden::read_npy(path + "logits.npy");
  EXPECT_LE(total_relative_rms(logits, stored), kFlipTolerance);
  if (GetParam().is_clean) {
    EXPECT_LE(worst_difference(logits, stored), kNoFlipTolerance);
  } else {
    EXPECT_GT(worst_difference(logits, stored), kNoFlipTolerance)
        << "no flip any more: mark the case clean";
  }

  const golden::Array top = golden::read_npy(path + "top20_ids.npy");
  size_t agreeing = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    agreeing += argmax(logits[t]) == static_cast<TokenId>(top.values[t * 20]) ? 1 : 0;
  }
  EXPECT_GE(agreeing * 10, tokens.size() * 9);

  std::vector<float> last = logits.back();
  for (const auto token : info["greedy"].get<std::vector<TokenId>>()) {
    const TokenId best = argmax(last);
    EXPECT_LE(last[static_cast<size_t>(best)] - last[static_cast<size_t>(token)],
              GetParam().greedy_slack)
        << "golden token " << token << ", ours " << best;
    last = model.decode(0, token);
  }
}

INSTANTIATE_TEST_SUITE_P(Prompts, CaseGolden, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

// The image case: the vision tower comes later, its output rows are injected.
struct ImagePrompt {
  std::vector<TokenId> tokens;
  std::vector<uint8_t> is_image;
  std::vector<Bf16> embeds;
};

std::vector<Bf16> read_bf16(const Checkpoint& checkpoint, const std::string& name) {
  const Result<const TensorEntry*> entry = checkpoint.find(name);
  CHECK(entry.has_value(), "{}", name);
  std::vector<Bf16> values((*entry)->num_bytes / 2);
  CHECK(checkpoint.read(**entry, std::as_writable_bytes(std::span(values))).has_value());
  return values;
}

// [image_start] ([row] [image_newline])* [image_end] in place of the span of image tokens
// (model.md section 8.4).
ImagePrompt image_prompt(const ModelHarness& model, const std::string& name) {
  const Json info = golden::read_json(folder(name) + "case.json");
  ImagePrompt prompt;
  prompt.tokens = info["tokens"].get<std::vector<TokenId>>();
  const auto hidden = static_cast<size_t>(model.config().hidden_size);
  prompt.is_image.resize(prompt.tokens.size());
  prompt.embeds.resize(prompt.tokens.size() * hidden);
  const golden::Array rows = golden::read_npy(folder(name) + "image0_rows.npy");
  const Checkpoint& checkpoint = model.weights().checkpoint();
  const std::vector<Bf16> start = read_bf16(checkpoint, "image_start");
  const std::vector<Bf16> newline = read_bf16(checkpoint, "image_newline");
  const std::vector<Bf16> end = read_bf16(checkpoint, "image_end");
  size_t first = 0, count = 0;
  for (size_t t = 0; t < prompt.tokens.size(); ++t) {
    if (prompt.tokens[t] != model.config().image_token_id) continue;
    if (count++ == 0) first = t;
    prompt.is_image[t] = 1;
  }
  // count = gh * (gw + 1) + 2 and rows = gh * gw.
  const size_t num_rows = static_cast<size_t>(rows.rows()), grid_rows = count - 2 - num_rows;
  const size_t grid_width = num_rows / grid_rows;
  const auto put = [&](size_t at, const auto* values) {
    for (size_t d = 0; d < hidden; ++d) {
      if constexpr (std::is_same_v<decltype(values), const Bf16*>) {
        prompt.embeds[(first + at) * hidden + d] = values[d];
      } else {
        prompt.embeds[(first + at) * hidden + d] = to_bf16(static_cast<float>(values[d]));
      }
    }
  };
  put(0, start.data());
  size_t at = 1;
  for (size_t y = 0; y < grid_rows; ++y) {
    for (size_t x = 0; x < grid_width; ++x) {
      put(at++, rows.values.data() + (y * grid_width + x) * hidden);
    }
    put(at++, newline.data());
  }
  put(at, end.data());
  return prompt;
}

TEST(ImageGolden, injected_image_rows_give_the_reference_logits_in_chunks_of_any_size) {
  const std::string name = "image_30x20";
  for (const size_t chunk : {size_t{1}, size_t{7}, size_t{1000}}) {
    ModelHarness model({.accumulate = Accumulate::kDouble});
    const ImagePrompt prompt = image_prompt(model, name);
    const auto hidden = static_cast<size_t>(model.config().hidden_size);
    std::vector<std::vector<float>> logits;
    for (size_t at = 0; at < prompt.tokens.size(); at += chunk) {
      const size_t end = std::min(at + chunk, prompt.tokens.size());
      const auto part = [&](const auto& values, size_t width) {
        return std::vector(values.begin() + static_cast<int64_t>(at * width),
                           values.begin() + static_cast<int64_t>(end * width));
      };
      auto rows = model.step({{.tokens = part(prompt.tokens, 1),
                               .is_image = part(prompt.is_image, 1),
                               .embeds = part(prompt.embeds, hidden)}});
      std::move(rows[0].begin(), rows[0].end(), std::back_inserter(logits));
    }
    EXPECT_LE(worst_difference(logits, golden::read_npy(folder(name) + "logits.npy")),
              kExactTolerance)
        << "chunk " << chunk;
    const Json info = golden::read_json(folder(name) + "case.json");
    std::vector<float> last = logits.back();
    for (const auto token : info["greedy"].get<std::vector<TokenId>>()) {
      ASSERT_EQ(argmax(last), token);
      last = model.decode(0, token);
    }
  }
}

}  // namespace
}  // namespace yeoul
