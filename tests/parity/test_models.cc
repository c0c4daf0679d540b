#include "test_models.h"

#include "base/check.h"
#include "support/random_models.h"
#include "support/temporary_folder.h"

namespace yeoul::parity {
namespace {

// A random checkpoint in a folder that goes with the program.
class RandomModel {
 public:
  RandomModel(int window, int top_k) {
    const auto written =
        write_random_model(random_model_config(window, top_k), folder_.path(), 20261130);
    CHECK(written.has_value(), "{}", written.error().message);
  }
  ModelHarness::Options options() const {
    return {.checkpoint = folder_.path(), .engram_map = folder_.path() + "/engram_map.json"};
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TestModel tiny_model() {
  return {"tiny", {}};
}

TestModel random_model() {
  static const RandomModel model(64, 64);
  return {"random", model.options()};
}

TestModel straddling_model() {
  static const RandomModel model(96, 80);
  return {"straddling", model.options()};
}

std::vector<TokenId> random_tokens(const ModelConfig& config, uint64_t seed, size_t count) {
  Draw draw(mix64(seed));
  std::vector<TokenId> tokens;
  while (tokens.size() < count) {
    const auto token = static_cast<TokenId>(draw.below(static_cast<size_t>(config.vocab_size)));
    if (token != config.image_token_id) tokens.push_back(token);
  }
  return tokens;
}

AloneRun run_alone(const TestModel& model, std::vector<TokenId> prompt, size_t continuation) {
  ModelHarness::Options options = model.options;
  options.rows_max = static_cast<int32_t>(prompt.size());
  ModelHarness harness(options);
  AloneRun run;
  run.logits = harness.prefill(0, prompt);
  run.tokens = std::move(prompt);
  for (size_t i = 0; i < continuation; ++i) {
    run.tokens.push_back(argmax(run.logits.back()));
    run.logits.push_back(harness.decode(0, run.tokens.back()));
  }
  return run;
}

}  // namespace yeoul::parity
