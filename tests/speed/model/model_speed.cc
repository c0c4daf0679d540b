// What the forward pass promises: speed on one thread, equality, and the size of the cone.
//   model_speed [NAME...]   JSON lines; all rows without a name

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "checkpoint/release_config.h"
#include "law1.h"
#include "parity/test_models.h"
#include "speed/claim_row.h"
#include "support/golden_files.h"
#include "support/random_models.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

using speed::print_row;

template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Speeds {
  double prefill = 0;  // tokens a second
  double decode = 0;
};

// One sequence on one thread, weights resident: the better of three runs.
Speeds measure(const ModelHarness::Options& options, size_t prompt, size_t steps) {
  ModelHarness model(options);
  const std::vector<TokenId> tokens = parity::random_tokens(model.config(), 1, prompt);
  Speeds best;
  for (int run = 0; run < 3; ++run) {
    model.reset(0);
    std::vector<float> last;
    const double prefill = seconds_of([&] { last = model.prefill_cone(0, tokens); });
    const double decode = seconds_of([&] {
      for (size_t i = 0; i < steps; ++i) last = model.decode(0, argmax(last));
    });
    best.prefill = std::max(best.prefill, static_cast<double>(prompt) / prefill);
    best.decode = std::max(best.decode, static_cast<double>(steps) / decode);
  }
  return best;
}

void tiny_speed() {
  constexpr double kGoal = 50;  // tok/s
  const Speeds speeds = measure({}, 100, 200);
  print_row("tiny_decode_tok_s", speeds.decode, "tok/s, 1 thread, 100 tokens of context", ">= 50",
            speeds.decode >= kGoal);
}

void small_speed() {
  const TemporaryFolder folder;
  const auto written = write_random_model(small_model_config(), folder.path(), 1);
  CHECK(written.has_value(), "{}", written.error().message);
  const Speeds speeds = measure(
      {.checkpoint = folder.path(), .engram_map = folder.path() + "/engram_map.json"}, 512, 64);
  print_row("small_prefill_tok_s", speeds.prefill, "tok/s, 1 thread, prompt of 512", "reported",
            true);
  print_row("small_decode_tok_s", speeds.decode, "tok/s, 1 thread, 512 tokens of context",
            "reported", true);
}

void law1() {
  const parity::Law1Count count = parity::count_law1_differences();
  print_row("law1", static_cast<double>(count.differing),
            fmt::format("rows of logits of {}", count.compared), "0",
            count.differing == 0 && count.compared > 0);
}

// Largest |logit - reference| of the exact path over all text prompts of the golden data.
void golden_difference() {
  double worst = 0;
  size_t compared = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/data/cases")) {
    if (entry.path().filename().string().starts_with("image")) continue;  // needs its image rows
    const std::string path = entry.path().string() + "/";
    const Json info = golden::read_json(path + "case.json");
    const auto tokens = info["tokens"].get<std::vector<TokenId>>();
    ModelHarness model({.accumulate = Accumulate::kDouble});
    std::vector<std::vector<float>> rows = model.prefill(0, tokens);
    const golden::Array prompt = golden::read_npy(path + "logits.npy");
    const golden::Array greedy = golden::read_npy(path + "greedy_logits.npy");
    rows.erase(rows.begin(), rows.end() - prompt.rows());
    std::vector<double> stored = prompt.values;
    // Row 0 of the greedy logits is the last of the prompt.
    stored.insert(stored.end(), greedy.values.begin() + greedy.width(), greedy.values.end());
    const auto chosen = info["greedy"].get<std::vector<TokenId>>();
    for (int64_t i = 0; i + 1 < greedy.rows(); ++i) {
      rows.push_back(model.decode(0, chosen[static_cast<size_t>(i)]));
    }
    const auto width = static_cast<size_t>(prompt.width());
    CHECK(rows.size() * width == stored.size(), "{}", path);
    for (size_t i = 0; i < stored.size(); ++i) {
      const double difference =
          std::fabs(static_cast<double>(rows[i / width][i % width]) - stored[i]);
      worst = difference <= worst ? worst : difference;  // a NaN becomes the worst
    }
    ++compared;
  }
  constexpr double kGoal = 1e-5;
  print_row("golden_exact_max_diff", worst, fmt::format("logit, {} prompts", compared), "<= 1e-05",
            worst <= kGoal && compared >= 12);
}

// Layer-tokens behind the last KV source that a long prompt of the release computes.
void cone_size() {
  const ModelConfig config = release_config();
  const Cone cone(config);
  constexpr int64_t kPrompt = 131072;
  int64_t layer_tokens = 0;
  for (int32_t layer = config.decoder_start(); layer < config.num_hidden_layers; ++layer) {
    for (int64_t p = 0; p < kPrompt; ++p) layer_tokens += p >= cone.output_begin(layer, kPrompt);
  }
  print_row("cone_layer_tokens", static_cast<double>(layer_tokens),
            "layer-tokens of a prompt of 131072", "= 24150", layer_tokens == 24150);
}

struct Measurement {
  std::vector<std::string_view> names;
  void (*run)();
};

const Measurement kMeasurements[] = {
    {{"tiny_decode_tok_s"}, tiny_speed},
    {{"small_prefill_tok_s", "small_decode_tok_s"}, small_speed},
    {{"law1"}, law1},
    {{"golden_exact_max_diff"}, golden_difference},
    {{"cone_layer_tokens"}, cone_size},
};

}  // namespace
}  // namespace yeoul

int main(int argc, char** argv) {
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  size_t found = 0;
  for (const yeoul::Measurement& measurement : yeoul::kMeasurements) {
    const size_t matches = static_cast<size_t>(std::count_if(
        measurement.names.begin(), measurement.names.end(),
        [&](auto name) { return std::find(wanted.begin(), wanted.end(), name) != wanted.end(); }));
    found += matches;
    if (wanted.empty() || matches != 0) measurement.run();
  }
  if (found == wanted.size()) return 0;
  fmt::print(stderr, "usage: {} [NAME...]\n", argv[0]);
  return 2;
}
