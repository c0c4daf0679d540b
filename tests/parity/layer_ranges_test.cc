// Rows that go through the layers in several steps, parked in between, give the bits of rows that
// go through in one.

#include <gtest/gtest.h>

#include <algorithm>

#include "test_models.h"

namespace yeoul::parity {
namespace {

class LayerRanges : public testing::TestWithParam<TestModel (*)()> {
 protected:
  void SetUp() override {
    ModelHarness::Options options = GetParam()().options;
    options.slots = 3;
    options.rows_max = 400;
    options.parked_rows_max = 200;
    options.context_max = 1024;
    model_ = std::make_unique<ModelHarness>(options);
    layers_ = model_->config().num_hidden_layers;
  }

  // One chunk of slot 0 in the given layer ranges, with rows of two other sequences beside it: one
  // decodes, one reads its prompt in ranges cut elsewhere.
  std::vector<Logits> run_chunk(std::vector<TokenId> tokens, const std::vector<int32_t>& cuts,
                                int64_t cone_end, LogitRows wanted) {
    std::vector<Logits> logits;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<ModelHarness::Feed> feeds;
      feeds.push_back({.slot = 1, .tokens = {neighbour_.tokens[neighbour_at_]}});
      feeds.push_back({.slot = 0,
                       .tokens = tokens,
                       .cone_end = cone_end,
                       .logits = wanted,
                       .layer_begin = cuts[i],
                       .layer_end = cuts[i + 1]});
      auto rows = model_->step(feeds);
      EXPECT_TRUE(same_bits(rows[0][0], neighbour_.logits[neighbour_at_])) << "neighbour";
      ++neighbour_at_;
      if (cuts[i + 1] == layers_) logits = std::move(rows[1]);
    }
    return logits;
  }

  // A second sequence that decodes beside the first.
  void start_neighbour(size_t steps) {
    neighbour_ = run_alone(GetParam()(), random_tokens(model_->config(), 77, 30), steps);
    model_->reset(1);
    model_->prefill(1, std::span(neighbour_.tokens).first(30));
    neighbour_at_ = 30;
  }

  std::unique_ptr<ModelHarness> model_;
  int32_t layers_ = 0;
  AloneRun neighbour_;
  size_t neighbour_at_ = 0;
};

TEST_P(LayerRanges, cut_anywhere_give_the_bits_of_the_whole_in_chunks_too) {
  const size_t length = kReduced ? 50 : 230;
  const std::vector<TokenId> tokens = random_tokens(model_->config(), 21, length);
  const std::vector<Logits> whole = model_->prefill(0, tokens);
  const size_t chunk = length / 3 + 1;
  start_neighbour(2 * 3 * static_cast<size_t>(layers_));
  for (int32_t cut = 1; cut < layers_; ++cut) {
    if (kReduced && cut % 3 != 0) continue;
    model_->reset(0);
    std::vector<Logits> rows;
    for (size_t at = 0; at < length; at += chunk) {
      const size_t end = std::min(at + chunk, length);
      auto part = run_chunk(
          {tokens.begin() + static_cast<int64_t>(at), tokens.begin() + static_cast<int64_t>(end)},
          {0, cut, layers_}, -1, LogitRows::kEvery);
      std::move(part.begin(), part.end(), std::back_inserter(rows));
    }
    EXPECT_EQ(first_difference(rows, whole), -1) << "cut before layer " << cut;
  }
}

TEST_P(LayerRanges, of_single_layers_give_the_bits_of_the_whole) {
  const std::vector<TokenId> tokens = random_tokens(model_->config(), 22, 64);
  const std::vector<Logits> whole = model_->prefill(0, tokens);
  start_neighbour(2 * static_cast<size_t>(layers_));
  model_->reset(0);
  std::vector<int32_t> cuts;
  for (int32_t layer = 0; layer <= layers_; ++layer) cuts.push_back(layer);
  std::vector<Logits> rows =
      run_chunk({tokens.begin(), tokens.begin() + 31}, cuts, -1, LogitRows::kEvery);
  auto rest = run_chunk({tokens.begin() + 31, tokens.end()}, cuts, -1, LogitRows::kEvery);
  std::move(rest.begin(), rest.end(), std::back_inserter(rows));
  EXPECT_EQ(first_difference(rows, whole), -1);
}

TEST_P(LayerRanges, through_the_cone_give_the_bits_of_the_full_schedule) {
  const size_t length = kReduced ? 60 : 390;
  const std::vector<TokenId> tokens = random_tokens(model_->config(), 23, length);
  const Logits full = model_->prefill(0, tokens).back();
  std::vector<Logits> continued;
  Logits last = full;
  for (int i = 0; i < 20; ++i) {
    last = model_->decode(0, argmax(last));
    continued.push_back(last);
  }
  start_neighbour(3 * 3 * static_cast<size_t>(layers_));
  for (int32_t cut = 2; cut < layers_; cut += 2) {
    model_->reset(0);
    std::vector<Logits> rows;
    for (size_t at = 0; at < length; at += 131) {
      const size_t end = std::min(at + 131, length);
      rows = run_chunk(
          {tokens.begin() + static_cast<int64_t>(at), tokens.begin() + static_cast<int64_t>(end)},
          {0, cut, layers_}, static_cast<int64_t>(length),
          end == length ? LogitRows::kLast : LogitRows::kNone);
    }
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_TRUE(same_bits(rows[0], full)) << "cut before layer " << cut;
    for (const Logits& expected : continued) {
      rows[0] = model_->decode(0, argmax(rows[0]));
      ASSERT_TRUE(same_bits(rows[0], expected)) << "cut before layer " << cut;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LayerRanges, testing::ValuesIn(models_for_all()),
                         [](const auto& tested) { return tested.param().name; });

}  // namespace
}  // namespace yeoul::parity
