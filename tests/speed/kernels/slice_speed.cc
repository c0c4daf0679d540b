// A slice of the release at true widths, resident: whole decode steps against the read roof,
// prefill against the BF16 peak.
//   slice_speed CHECKPOINT [NAME...]   a folder of `yeoul make-checkpoint`, which
//   tools/on_slice.sh makes

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "measure/roofs.h"
#include "speed/claim_row.h"
#include "speed/token_map.h"
#include "support/model_harness.h"

namespace yeoul::speed {
namespace {

constexpr int kThreads = 2;
constexpr size_t kContext = 600;  // positions before the decode steps that are timed
constexpr size_t kPrompt = 2048;  // tokens of the prefill
constexpr size_t kStep = 512;     // of them in one step

ModelHarness::Options options_for(const std::string& checkpoint) {
  return {.checkpoint = checkpoint,
          .engram_map = write_token_map(checkpoint),
          .threads = kThreads,
          .rows_max = 512,
          .context_max = 4096};
}

std::vector<TokenId> prompt_of(const ModelConfig& config, size_t count) {
  std::vector<TokenId> tokens;
  for (size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(i * 7919 % static_cast<size_t>(config.vocab_size - 300)));
  }
  return tokens;
}

double matrix_values(const Weight& w) {
  return static_cast<double>(w.rows * w.cols);
}

// Multiplications of one token in the linear layers of the backbone, head apart.
double products_per_token(const ModelHarness& model) {
  double total = 0;
  const ModelConfig& config = model.config();
  for (const LayerWeights& layer : model.weights().layers) {
    for (const Linear* l :
         {&layer.wq_a, &layer.wq_b, &layer.wkv, &layer.wo_a, &layer.wo_b, &layer.gate}) {
      total += matrix_values(l->weight);
    }
    const double expert = matrix_values(layer.shared.w1) * 3;
    total += expert * (1 + config.num_experts_per_tok);
    if (layer.compressor) {
      total += matrix_values(layer.compressor->wkv.weight) * (layer.compressor->wgate ? 2 : 1);
    }
    if (layer.indexer) total += matrix_values(layer.indexer->wq_b.weight);
    if (layer.engram) total += matrix_values(layer.engram->wkv.weight);
  }
  return total;
}

void decode(const std::string& checkpoint) {
  ModelHarness model(options_for(checkpoint));
  const ModelConfig& config = model.config();
  std::vector<float> last = model.prefill_cone(0, prompt_of(config, kContext));
  for (int i = 0; i < 8; ++i) last = model.decode(0, argmax(last));  // experts become resident
  ThreadPool pool(kThreads);
  std::vector<uint8_t> memory(size_t{600'000'000}, uint8_t{1});
  double best = 1e9, roof = 0;
  for (int round = 0; round < 4; ++round) {
    roof = std::max(roof, read_roof(pool, memory.data(), memory.size()));
    for (int i = 0; i < 8; ++i) {
      const double start = now_seconds();
      last = model.decode(0, argmax(last));
      best = std::min(best, now_seconds() - start);
    }
  }
  const auto& weights = model.weights();
  const double experts = static_cast<double>(weights.experts().expert_bytes()) *
                         config.num_experts_per_tok * config.num_hidden_layers;
  const double bytes = static_cast<double>(Weights::resident_bytes(weights.checkpoint())) -
                       2 * matrix_values(weights.embed.weight) + experts;
  const double share = bytes / best / roof;
  print_row("decode_slice", share,
            fmt::format("of the read roof: {:.2f} GB in {:.0f} ms, {:.1f} of {:.1f} GB/s, {} "
                        "layers, {} threads, {}",
                        bytes / 1e9, best * 1e3, bytes / best / 1e9, roof / 1e9,
                        config.num_hidden_layers, kThreads, name_of(best_isa())),
            ">= 0.8", share >= 0.8);
}

void prefill(const std::string& checkpoint) {
  ModelHarness model(options_for(checkpoint));
  const std::vector<TokenId> prompt = prompt_of(model.config(), kPrompt);
  ThreadPool pool(kThreads);
  model.prefill_cone(0, std::span(prompt).first(kStep));
  double peak = bf16_peak(pool);
  model.reset(0);
  // The fastest step counts, as the fastest pass does for the peak: a busy machine slows both.
  double seconds = 1e9;
  for (size_t at = 0; at < prompt.size(); at += kStep) {
    peak = std::max(peak, bf16_peak(pool));
    const double start = now_seconds();
    // Without the cone: every row through every layer, as the count of products assumes.
    model.step({{.slot = 0,
                 .tokens = {prompt.begin() + static_cast<int64_t>(at),
                            prompt.begin() + static_cast<int64_t>(at + kStep)},
                 .logits = LogitRows::kNone}});
    seconds = std::min(seconds, now_seconds() - start);
  }
  const double rate = 2 * products_per_token(model) * static_cast<double>(kStep) / seconds;
  print_row(
      "prefill_slice", rate / peak,
      fmt::format(
          "of the BF16 peak over the linear layers: {:.0f} of {:.0f} GFLOP/s, {:.1f} tok/s, {} "
          "tokens, the best of its steps of 512, {} layers, {} threads, {}",
          rate / 1e9, peak / 1e9, static_cast<double>(kStep) / seconds, kPrompt,
          model.config().num_hidden_layers, kThreads, name_of(best_isa())),
      ">= 0.52", rate / peak >= 0.52);
}

}  // namespace
}  // namespace yeoul::speed

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: {} CHECKPOINT [decode_slice|prefill_slice]\n", argv[0]);
    return 2;
  }
  const std::vector<std::string_view> wanted(argv + 2, argv + argc);
  const auto is_wanted = [&](std::string_view name) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
  };
  if (is_wanted("decode_slice")) yeoul::speed::decode(argv[1]);
  if (is_wanted("prefill_slice")) yeoul::speed::prefill(argv[1]);
  return 0;
}
