// Which experts are in memory decides no bit: a cache of a few slots gives what a resident model
// gives, with every way of reading, and a failed read ends its own sequence.

#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "base/fault.h"
#include "test_models.h"

namespace yeoul::parity {
namespace {

constexpr int32_t kSequences = 6;
constexpr size_t kPrompt = 40, kSteps = 8;

ModelHarness::Options options_for(const TestModel& tested, const ExpertStoreOptions& experts) {
  ModelHarness::Options options = tested.options;
  options.slots = kSequences;
  options.context_max = 256;
  options.experts = experts;
  return options;
}

std::vector<TokenId> tokens_of(const ModelHarness& model, int32_t sequence) {
  return random_tokens(model.config(), 70 + static_cast<uint64_t>(sequence), kPrompt + kSteps);
}

// Prompts in chunks of 16, then all sequences decode together: logits of every row, in order.
std::vector<Logits> run_all(ModelHarness& model) {
  std::vector<Logits> logits;
  for (int32_t i = 0; i < kSequences; ++i) {
    model.reset(i);
    const std::vector<TokenId> tokens = tokens_of(model, i);
    for (Logits& row : model.prefill(i, std::span(tokens).first(kPrompt), 16)) {
      logits.push_back(std::move(row));
    }
  }
  for (size_t step = 0; step < kSteps; ++step) {
    std::vector<ModelHarness::Feed> feeds;
    for (int32_t i = 0; i < kSequences; ++i) {
      feeds.push_back({.slot = i, .tokens = {tokens_of(model, i)[kPrompt + step]}});
    }
    for (auto& rows : model.step(feeds)) logits.push_back(std::move(rows[0]));
  }
  return logits;
}

class StreamedExperts : public testing::TestWithParam<TestModel (*)()> {};

TEST_P(StreamedExperts, give_the_bits_of_resident_ones_with_any_number_of_slots) {
  const TestModel tested = GetParam()();
  ModelHarness resident(options_for(tested, {}));
  const std::vector<Logits> expected = run_all(resident);
  const std::vector<ExpertStoreOptions> ways = {
      {.num_slots = 1},
      {.num_slots = 7},
      {.num_slots = 40},
      {.num_slots = 7, .allow_direct = false},
      {.num_slots = 7, .way = ReadWay::kThreads},
      {.num_slots = 7, .way = ReadWay::kThreads, .allow_direct = false}};
  for (const ExpertStoreOptions& experts : ways) {
    SCOPED_TRACE(testing::Message()
                 << experts.num_slots << " slots, way " << static_cast<int>(experts.way)
                 << ", direct " << experts.allow_direct);
    ModelHarness streamed(options_for(tested, experts));
    EXPECT_EQ(first_difference(run_all(streamed), expected), -1);
    EXPECT_GT(streamed.weights().experts().traffic().misses,
              resident.weights().experts().traffic().misses);
    if (kReduced) break;
  }
}

// One row a step wants few experts, so that the slots would hold such a guess of every layer.
TEST_P(StreamedExperts, read_ahead_of_the_router_give_the_bits_of_resident_ones) {
  const TestModel tested = GetParam()();
  const auto decode = [&](ModelHarness& model) {
    std::vector<Logits> logits;
    for (const TokenId token : tokens_of(model, 0)) logits.push_back(model.decode(0, token));
    return logits;
  };
  ModelHarness resident(options_for(tested, {}));
  const std::vector<Logits> expected = decode(resident);
  for (const bool read_ahead : {true, false}) {
    ModelHarness streamed(options_for(tested, {.num_slots = 60, .read_ahead = read_ahead}));
    EXPECT_EQ(first_difference(decode(streamed), expected), -1);
    EXPECT_EQ(streamed.weights().experts().traffic().foreseen > 0, read_ahead);
  }
}

// Sequences whose row of the step at hand chose the expert.
std::set<size_t> users_of(ModelHarness& model, const std::vector<ModelHarness::Feed>& feeds,
                          int32_t layer, float expert, std::vector<Logits>& logits) {
  std::set<size_t> users;
  const Trace trace{[&](const Trace::Tensor& tensor) {
                      if (tensor.name != "experts" || tensor.layer != layer) return;
                      const auto width = static_cast<size_t>(tensor.shape[1]);
                      for (size_t v = 0; v < tensor.values.size(); ++v) {
                        if (tensor.values[v] == expert) users.insert(v / width);
                      }
                    },
                    {}};
  for (auto& rows : model.step(feeds, &trace)) logits.push_back(std::move(rows[0]));
  return users;
}

// The device fails for as long as the step lasts; a cache of one slot must read every expert.
TEST_P(StreamedExperts, a_failed_read_ends_the_rows_that_need_it_and_no_other) {
  const TestModel tested = GetParam()();
  constexpr int32_t kLayer = 3;
  std::vector<ModelHarness::Feed> feeds;
  std::vector<Logits> expected;
  ModelHarness resident(options_for(tested, {}));
  for (int32_t i = 0; i < kSequences; ++i) {
    feeds.push_back({.slot = i, .tokens = {tokens_of(resident, i)[0]}});
  }
  const std::set<size_t> users = users_of(resident, feeds, kLayer, 1, expected);
  ASSERT_GE(users.size(), 1u);
  ASSERT_LT(users.size(), size_t{kSequences});

  for (const int32_t slots : {1, 4}) {
    ModelHarness streamed(options_for(tested, {.num_slots = slots}));
    const ScopedFault fault(FaultPoint::kWeightRead,
                            [](uint64_t key) { return key == (uint64_t{kLayer} << 32 | 1); });
    const auto logits = streamed.step(feeds);
    for (size_t i = 0; i < feeds.size(); ++i) {
      SCOPED_TRACE(testing::Message() << slots << " slots, sequence " << i);
      const Result<void>& status = streamed.outcome(i).status;
      EXPECT_EQ(status.has_value(), !users.contains(i));
      if (status) {
        EXPECT_TRUE(same_bits(logits[i][0], expected[i]));
      } else {
        EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, StreamedExperts, testing::ValuesIn(models_for_all()),
                         [](const auto& tested) { return tested.param().name; });

}  // namespace
}  // namespace yeoul::parity
