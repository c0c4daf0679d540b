// Tokens that were tried and not accepted leave no trace.

#include <gtest/gtest.h>

#include <algorithm>

#include "test_models.h"

namespace yeoul::parity {
namespace {

class Rollback : public testing::TestWithParam<TestModel (*)()> {};

TEST_P(Rollback, of_rejected_tokens_leaves_no_trace) {
  const TestModel tested = GetParam()();
  const size_t prompt = 41, continuation = kReduced ? 40 : 230;  // over the page border at 256
  const std::vector<TokenId> start =
      random_tokens(ModelHarness(tested.options).config(), 31, prompt);
  const AloneRun alone = run_alone(tested, start, continuation);
  ModelHarness::Options options = tested.options;
  options.context_max = 512;
  options.page_seed = 3;
  ModelHarness model(options);
  model.prefill(0, start);
  Draw draw(32);
  size_t at = prompt;
  size_t rejected = 0, nothing_accepted = 0;
  while (at < alone.tokens.size()) {
    // Between 0 and 6 right tokens, then wrong ones.
    const size_t right = std::min(draw.below(7), alone.tokens.size() - at);
    const size_t wrong = right == 0 ? 1 + draw.below(5) : draw.below(6);
    std::vector<TokenId> tokens(alone.tokens.begin() + static_cast<int64_t>(at),
                                alone.tokens.begin() + static_cast<int64_t>(at + right));
    for (size_t i = 0; i < wrong; ++i) {
      const std::vector<TokenId> guess = random_tokens(model.config(), 1000 * at + i, 2);
      const size_t place = at + right + i;
      const bool is_right = place < alone.tokens.size() && guess[0] == alone.tokens[place];
      tokens.push_back(is_right ? guess[1] : guess[0]);
    }
    const auto logits =
        model.step({{.tokens = tokens, .num_accepted = static_cast<int32_t>(right)}})[0];
    for (size_t i = 0; i < right; ++i) {
      ASSERT_TRUE(same_bits(logits[i], alone.logits[at + i])) << "position " << at + i;
    }
    at += right;
    rejected += wrong;
    nothing_accepted += right == 0 ? 1 : 0;
  }
  EXPECT_GT(rejected, kReduced ? 5u : 80u);
  EXPECT_GT(nothing_accepted, kReduced ? 0u : 5u);
}

INSTANTIATE_TEST_SUITE_P(Models, Rollback,
                         testing::Values(tiny_model, random_model, straddling_model),
                         [](const auto& tested) { return tested.param().name; });

}  // namespace
}  // namespace yeoul::parity
