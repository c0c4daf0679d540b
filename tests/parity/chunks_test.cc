// A prompt cut into chunks of any size gives the bits of the prompt in one piece.

#include <gtest/gtest.h>

#include "test_models.h"

namespace yeoul::parity {
namespace {

struct ChunkCase {
  const char* name;
  TestModel (*model)();
  Accumulate accumulate;
  size_t length;
};

class Chunks : public testing::TestWithParam<ChunkCase> {};

TEST_P(Chunks, of_any_size_give_the_bits_of_the_whole) {
  const ChunkCase& tested = GetParam();
  const size_t length = kReduced ? tested.length / 16 : tested.length;
  ModelHarness::Options options = tested.model().options;
  options.accumulate = tested.accumulate;
  options.rows_max = static_cast<int32_t>(length);
  ModelHarness model(options);
  const std::vector<TokenId> tokens = random_tokens(model.config(), length, length);
  const std::vector<Logits> whole = model.prefill(0, tokens);
  ASSERT_EQ(whole.size(), length);
  for (const int64_t chunk : {1, 7, 64, 128}) {
    model.reset(0);
    EXPECT_EQ(first_difference(model.prefill(0, tokens, chunk), whole), -1)
        << "first differing row, chunks of " << chunk;
  }
}

// Longer than the candidate pool, the window and the cone of either model.
INSTANTIATE_TEST_SUITE_P(
    Models, Chunks,
    testing::Values(ChunkCase{"tiny_float", tiny_model, Accumulate::kFloat, 2000},
                    ChunkCase{"tiny_double", tiny_model, Accumulate::kDouble, 200},
                    ChunkCase{"random_float", random_model, Accumulate::kFloat, 500},
                    ChunkCase{"random_double", random_model, Accumulate::kDouble, 160},
                    ChunkCase{"straddling_float", straddling_model, Accumulate::kFloat, 300}),
    [](const auto& tested) { return tested.param.name; });

// The checks above could not fail if the logits did not depend on what is compared.
TEST(ChunkChecks, logits_differ_between_rows_and_with_the_first_token) {
  ModelHarness model((kReduced ? tiny_model() : random_model()).options);
  std::vector<TokenId> tokens = random_tokens(model.config(), 3, 200);
  const std::vector<Logits> first = model.prefill(0, tokens);
  EXPECT_FALSE(same_bits(first[198], first[199]));
  model.reset(0);
  tokens[0] = tokens[0] == 5 ? 6 : 5;
  EXPECT_FALSE(same_bits(model.prefill(0, tokens)[199], first[199]));
}

}  // namespace
}  // namespace yeoul::parity
