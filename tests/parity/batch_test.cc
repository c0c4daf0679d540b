// What a sequence answers does not depend on who shares its steps, on the order of the rows, on the
// pages it got, nor on the number of threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "test_models.h"

namespace yeoul::parity {
namespace {

constexpr size_t kSequences = 16;

// Prompts of 1 to about 150 tokens, some around the window, each with a short continuation.
// Computed once for each model.
const std::vector<AloneRun>& run_all_alone(const TestModel& model) {
  static std::map<std::string, std::vector<AloneRun>> all;
  std::vector<AloneRun>& runs = all[model.name];
  if (!runs.empty()) return runs;
  const ModelHarness harness(model.options);
  const auto window = static_cast<size_t>(harness.config().sliding_window);
  const size_t lengths[kSequences] = {1,  2,  3,  window - 1, window, window + 1, 2 * window, 5,
                                      40, 37, 64, 65,         100,    127,        150,        23};
  for (size_t i = 0; i < kSequences; ++i) {
    const size_t length = kReduced ? 1 + lengths[i] / 8 : lengths[i];
    runs.push_back(run_alone(model, random_tokens(harness.config(), 100 + i, length), 20));
  }
  return runs;
}

// Drives all runs to their end in steps of random company: sequences in random order, prompts in
// chunks of random size beside decoding ones. Returns the rows that differ from the lone runs.
class Crowd {
 public:
  Crowd(ModelHarness& model, const std::vector<AloneRun>& runs, uint64_t seed)
      : model_(model), runs_(runs), draw_(seed), slots_(runs.size()), at_(runs.size()) {
    std::iota(slots_.begin(), slots_.end(), 0);
    shuffle(slots_);
    for (const int32_t slot : slots_) model_.reset(slot);
  }

  int64_t run() {
    while (step()) {
    }
    return differing_;
  }
  size_t largest_decode_batch() const { return largest_decode_batch_; }
  size_t mixed_steps() const { return mixed_steps_; }

 private:
  template <typename T>
  void shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[draw_.below(i)]);
  }

  bool step() {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (at_[i] < runs_[i].tokens.size()) chosen.push_back(i);
    }
    if (chosen.empty()) return false;
    shuffle(chosen);
    if (draw_.below(3) == 0) chosen.resize(1 + draw_.below(chosen.size()));
    std::vector<ModelHarness::Feed> feeds;
    size_t decoding = 0;
    for (const size_t i : chosen) {
      const std::vector<TokenId>& tokens = runs_[i].tokens;
      const size_t prompt = tokens.size() - 20;
      const size_t left = at_[i] < prompt ? prompt - at_[i] : 1;
      const size_t count = std::min(left, 1 + draw_.below(24));
      const auto begin = tokens.begin() + static_cast<int64_t>(at_[i]);
      feeds.push_back({.slot = slots_[i], .tokens = {begin, begin + static_cast<int64_t>(count)}});
      decoding += at_[i] >= prompt ? 1 : 0;
    }
    largest_decode_batch_ = std::max(largest_decode_batch_, decoding);
    mixed_steps_ += decoding != 0 && decoding != feeds.size() ? 1 : 0;
    const auto logits = model_.step(feeds);
    for (size_t f = 0; f < feeds.size(); ++f) {
      const size_t i = chosen[f];
      for (const Logits& row : logits[f]) {
        differing_ += same_bits(row, runs_[i].logits[at_[i]++]) ? 0 : 1;
      }
    }
    return true;
  }

  ModelHarness& model_;
  const std::vector<AloneRun>& runs_;
  Draw draw_;
  std::vector<int32_t> slots_;
  std::vector<size_t> at_;  // tokens done
  int64_t differing_ = 0;
  size_t largest_decode_batch_ = 0;
  size_t mixed_steps_ = 0;
};

class Batches : public testing::TestWithParam<TestModel (*)()> {};

TEST_P(Batches, of_any_company_order_pages_and_threads_give_the_bits_of_a_lone_run) {
  const TestModel tested = GetParam()();
  const std::vector<AloneRun>& runs = run_all_alone(tested);
  for (const int threads : {1, 2, 3}) {
    if (kReduced && threads != 2) continue;
    ModelHarness::Options options = tested.options;
    options.threads = threads;
    options.slots = kSequences;
    options.rows_max = kSequences * 24;
    options.context_max = 768;
    options.page_seed = static_cast<uint64_t>(threads);
    ModelHarness model(options);
    // The second crowd finds slots and pages as the first left them.
    for (uint64_t seed = 1; seed <= (threads == 1 ? 2 : 1); ++seed) {
      Crowd crowd(model, runs, 10 * static_cast<uint64_t>(threads) + seed);
      EXPECT_EQ(crowd.run(), 0) << threads << " threads, seed " << seed;
      EXPECT_GE(crowd.largest_decode_batch(), 8u);
      EXPECT_GE(crowd.mixed_steps(), kReduced ? 1u : 5u);
    }
  }
}

TEST_P(Batches, of_every_size_decode_the_same_bits) {
  const TestModel tested = GetParam()();
  const std::vector<AloneRun>& runs = run_all_alone(tested);
  ModelHarness::Options options = tested.options;
  options.slots = kSequences;
  options.context_max = 768;
  options.page_seed = 9;
  ModelHarness model(options);
  for (size_t i = 0; i < kSequences; ++i) {
    model.prefill(static_cast<int32_t>(i),
                  std::span(runs[i].tokens).first(runs[i].tokens.size() - 20));
  }
  Draw draw(4);
  std::vector<size_t> at(kSequences);
  for (size_t i = 0; i < kSequences; ++i) at[i] = runs[i].tokens.size() - 20;
  for (size_t size = 1; size <= kSequences; ++size) {
    std::vector<size_t> chosen(kSequences);
    std::iota(chosen.begin(), chosen.end(), 0);
    for (size_t i = kSequences; i > 1; --i) std::swap(chosen[i - 1], chosen[draw.below(i)]);
    chosen.resize(size);
    std::vector<ModelHarness::Feed> feeds;
    for (const size_t i : chosen) {
      feeds.push_back({.slot = static_cast<int32_t>(i), .tokens = {runs[i].tokens[at[i]]}});
    }
    const auto logits = model.step(feeds);
    for (size_t f = 0; f < size; ++f) {
      const size_t i = chosen[f];
      EXPECT_TRUE(same_bits(logits[f][0], runs[i].logits[at[i]++])) << "batch of " << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Batches, testing::ValuesIn(models_for_all()),
                         [](const auto& tested) { return tested.param().name; });

}  // namespace
}  // namespace yeoul::parity
