#include "law1.h"

#include <algorithm>

#include "base/check.h"
#include "parity/test_models.h"

namespace yeoul::parity {
namespace {

constexpr int32_t kSequences = 16;
constexpr size_t kPrompt = 150, kSteps = 12;

class Counter {
 public:
  explicit Counter(const TestModel& tested) : tested_(tested) {
    const ModelHarness model(tested.options);
    for (uint64_t i = 0; i < kSequences; ++i) {
      runs_.push_back(run_alone(
          tested, random_tokens(model.config(), 40 + i, i == 0 ? kPrompt : 5 + 4 * i), kSteps));
    }
  }

  Law1Count count() {
    for (const int threads : {1, 2, 3}) {
      ModelHarness model(options(threads));
      for (const int64_t chunk : {1, 7, 64, 128}) count_chunks(model, chunk);
      count_crowd(model, static_cast<uint64_t>(threads));
      count_cone_and_resume(model);
    }
    return total_;
  }

 private:
  ModelHarness::Options options(int threads) const {
    ModelHarness::Options options = tested_.options;
    options.threads = threads;
    options.slots = kSequences;
    options.context_max = 256;
    options.page_seed = 8;
    return options;
  }
  void add(const Logits& found, const Logits& expected) {
    ++total_.compared;
    total_.differing += same_bits(found, expected) ? 0 : 1;
  }
  static size_t prompt_len(const AloneRun& run) { return run.tokens.size() - kSteps; }

  void count_chunks(ModelHarness& model, int64_t chunk) {
    model.reset(0);
    const auto rows = model.prefill(0, std::span(runs_[0].tokens).first(kPrompt), chunk);
    for (size_t i = 0; i < rows.size(); ++i) add(rows[i], runs_[0].logits[i]);
  }

  // Everyone's prompt, then all decode together, in an order that turns.
  void count_crowd(ModelHarness& model, uint64_t seed) {
    Draw draw(seed);
    std::vector<int32_t> order;
    for (int32_t i = 0; i < kSequences; ++i) {
      const AloneRun& run = runs_[static_cast<size_t>(i)];
      model.reset(i);
      model.prefill(i, std::span(run.tokens).first(prompt_len(run)));
      order.push_back(i);
    }
    for (size_t step = 0; step < kSteps; ++step) {
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw.below(i)]);
      std::vector<ModelHarness::Feed> feeds;
      for (const int32_t i : order) {
        const AloneRun& run = runs_[static_cast<size_t>(i)];
        feeds.push_back({.slot = i, .tokens = {run.tokens[prompt_len(run) + step]}});
      }
      const auto logits = model.step(feeds);
      for (size_t f = 0; f < feeds.size(); ++f) {
        const AloneRun& run = runs_[static_cast<size_t>(order[f])];
        add(logits[f][0], run.logits[prompt_len(run) + step]);
      }
    }
  }

  void count_cone_and_resume(ModelHarness& model) {
    const AloneRun& run = runs_[0];
    const auto prompt = std::span(run.tokens).first(kPrompt);
    model.reset(0);
    add(model.prefill_cone(0, prompt, 64), run.logits[kPrompt - 1]);
    int32_t slot = 0;
    for (size_t step = 0; step < kSteps; ++step) {
      const size_t at = kPrompt + step;
      const SlotState state = model.kv().save(slot, model.pages(slot), static_cast<int64_t>(at));
      slot = 1 - slot;
      const auto history = model.forward().history_of(std::span(run.tokens).first(at));
      model.reset(slot);
      const auto restored =
          model.kv().restore(slot, model.pages(slot), static_cast<int64_t>(at), state, history);
      CHECK(restored.has_value(), "{}", restored.error().message);
      model.set_length(slot, static_cast<int64_t>(at));
      add(model.decode(slot, run.tokens[at]), run.logits[at]);
    }
  }

  TestModel tested_;
  std::vector<AloneRun> runs_;
  Law1Count total_;
};

}  // namespace

Law1Count count_law1_differences() {
  Law1Count total;
  for (const TestModel& tested : {tiny_model(), random_model()}) {
    const Law1Count count = Counter(tested).count();
    total.compared += count.compared;
    total.differing += count.differing;
  }
  return total;
}

}  // namespace yeoul::parity
