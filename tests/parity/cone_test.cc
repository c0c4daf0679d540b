// A prompt through the cone of its last position (docs/numerics.md) gives the bits of the full
// schedule: the logits of the last row and of everything decoded after it.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "test_models.h"

namespace yeoul::parity {
namespace {

// Prompt lengths on both sides of every bound of the cone.
std::set<size_t> lengths_around_bounds(const ModelConfig& config) {
  const auto reach = static_cast<size_t>(config.sliding_window - 1);
  std::set<size_t> lengths = {1, 2, reach, reach + 1, reach + 2};
  const auto layers = static_cast<size_t>(config.num_hidden_layers - config.decoder_start());
  for (size_t k = 1; k <= layers; ++k) {
    for (const size_t length : {reach * k, reach * k + 1, reach * k + 2}) lengths.insert(length);
  }
  return lengths;
}

class Cones : public testing::TestWithParam<TestModel (*)()> {
 protected:
  void SetUp() override {
    ModelHarness::Options options = GetParam()().options;
    options.rows_max = 512;
    model_ = std::make_unique<ModelHarness>(options);
  }

  struct Continuation {
    std::vector<TokenId> prompt;
    std::vector<Logits> rows;  // last of the prompt, then one a greedy step
  };

  Continuation full_schedule(size_t length, size_t steps) {
    Continuation full{random_tokens(model_->config(), 7 + length, length), {}};
    model_->reset(0);
    full.rows.push_back(model_->prefill(0, full.prompt).back());
    for (size_t i = 0; i < steps; ++i) {
      full.rows.push_back(model_->decode(0, argmax(full.rows.back())));
    }
    return full;
  }

  void expect_same_through_cone(const Continuation& full, int64_t chunk) {
    SCOPED_TRACE(testing::Message() << full.prompt.size() << " tokens in chunks of " << chunk);
    model_->reset(0);
    Logits row = model_->prefill_cone(0, full.prompt, chunk);
    ASSERT_TRUE(same_bits(row, full.rows[0])) << "last row of the prompt";
    for (size_t i = 1; i < full.rows.size(); ++i) {
      row = model_->decode(0, argmax(row));
      ASSERT_TRUE(same_bits(row, full.rows[i])) << "decode step " << i;
    }
  }

  std::unique_ptr<ModelHarness> model_;
};

TEST_P(Cones, around_every_bound_equal_the_full_schedule) {
  size_t count = 0;
  for (const size_t length : lengths_around_bounds(model_->config())) {
    if (kReduced && length > 35) continue;
    const int64_t chunks[] = {0, 1, 7, 64, 33};
    // 70 steps turn the window ring of either model over, 20 that of the tiny one.
    const Continuation full = full_schedule(length, count % 6 != 0 ? 3 : kReduced ? 20 : 70);
    expect_same_through_cone(full, chunks[count % std::size(chunks)]);
    ++count;
  }
}

TEST_P(Cones, of_long_prompts_equal_the_full_schedule_in_chunks_of_any_size) {
  const bool is_tiny = model_->config().sliding_window == 16;
  const Continuation full = full_schedule(kReduced ? 80 : is_tiny ? 2000 : 600, kReduced ? 5 : 40);
  for (const int64_t chunk : {0, 7, 64, 200}) expect_same_through_cone(full, chunk);
}

// Otherwise the comparison would be of a thing with itself.
TEST_P(Cones, leave_rows_out) {
  ModelHarness model(GetParam()().options);
  const Cone cone(model.config());
  const int32_t last = model.config().num_hidden_layers - 1;
  EXPECT_EQ(cone.output_begin(last, 500), 499);
  EXPECT_EQ(cone.window_begin(last, 500), 500 - model.config().sliding_window);
  EXPECT_EQ(cone.output_begin(0, 500), 0);
  size_t rows = 0;
  const Trace trace{[&](const Trace::Tensor& tensor) {
                      if (tensor.name == "moe_out" && tensor.layer == last) {
                        rows += static_cast<size_t>(tensor.shape[0]);
                      }
                    },
                    {}};
  const std::vector<TokenId> tokens = random_tokens(model.config(), 1, 100);
  model.step({{.tokens = tokens, .cone_end = 100, .logits = LogitRows::kLast}}, &trace);
  EXPECT_EQ(rows, 1u);
}

INSTANTIATE_TEST_SUITE_P(Models, Cones, testing::ValuesIn(models_for_all()),
                         [](const auto& tested) { return tested.param().name; });

}  // namespace
}  // namespace yeoul::parity
