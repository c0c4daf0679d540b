// Law 1 and law 3 through the production engine: answers do not depend on company, a fault of one
// request is nobody else's.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/fault.h"
#include "engine/engine_harness.h"

namespace yeoul {
namespace {

constexpr int64_t kMaxTokens = 24;

// Sixteen requests of different prompt lengths, around the window and the candidate cut.
std::vector<GenerateRequest> sixteen(int64_t max_tokens = kMaxTokens) {
  std::vector<GenerateRequest> requests;
  for (uint64_t key = 0; key < 16; ++key) {
    requests.push_back(make_request(key, 5 + static_cast<int64_t>(key) * 9, max_tokens));
  }
  return requests;
}

const std::vector<Outcome>& undisturbed() {
  static const std::vector<Outcome> outcomes = EngineHarness().answer(sixteen());
  return outcomes;
}

// All requests but those of `disturbed` answer exactly as they do without any fault.
void expect_neighbours_undisturbed(const std::vector<Outcome>& outcomes,
                                   const std::vector<size_t>& disturbed) {
  for (size_t i = 0; i < outcomes.size(); ++i) {
    ASSERT_TRUE(outcomes[i].status.has_value());
    if (std::find(disturbed.begin(), disturbed.end(), i) != disturbed.end()) {
      EXPECT_FALSE(outcomes[i].status->has_value()) << "request " << i;
      continue;
    }
    EXPECT_TRUE(outcomes[i].status->has_value()) << "request " << i;
    EXPECT_EQ(outcomes[i].answers, undisturbed()[i].answers) << "request " << i;
  }
}

TEST(ModelEngine, a_request_answers_alone_as_it_does_among_sixteen) {
  for (size_t i = 0; i < 16; ++i) {
    EngineHarness alone({.parallel = 1, .step_tokens_max = 7 + static_cast<int32_t>(i)});
    std::vector<GenerateRequest> one;
    one.push_back(std::move(sixteen()[i]));
    const std::vector<Outcome> outcome = alone.answer(std::move(one));
    EXPECT_EQ(outcome[0].answers, undisturbed()[i].answers) << "request " << i;
    EXPECT_EQ(outcome[0].answers[0].tokens.size(), static_cast<size_t>(kMaxTokens));
  }
}

TEST(ModelEngine, threads_and_order_of_arrival_change_nothing) {
  for (const int threads : {2, 3}) {
    EngineHarness engine({.num_threads = threads});
    std::vector<GenerateRequest> requests = sixteen();
    std::reverse(requests.begin(), requests.end());
    std::vector<Outcome> outcomes = engine.answer(std::move(requests));
    std::reverse(outcomes.begin(), outcomes.end());
    expect_neighbours_undisturbed(outcomes, {});
  }
}

TEST(ModelEngine, choices_differ_and_the_first_is_the_request_alone) {
  GenerateRequest request = make_request(3, 20, kMaxTokens);
  request.num_choices = 3;
  std::vector<GenerateRequest> requests;
  requests.push_back(std::move(request));
  requests.push_back(make_request(3, 20, kMaxTokens));
  const std::vector<Outcome> outcomes = EngineHarness().answer(std::move(requests));
  EXPECT_EQ(outcomes[0].answers[0], outcomes[1].answers[0]);
  EXPECT_NE(outcomes[0].answers[0].tokens, outcomes[0].answers[1].tokens);
  EXPECT_NE(outcomes[0].answers[1].tokens, outcomes[0].answers[2].tokens);
}

TEST(ModelEngine, a_row_that_is_not_finite_ends_its_request_only) {
  // Request 5 has a prompt of 50 tokens: position 60 is its eleventh decode step, in one slot.
  const ScopedFault fault(FaultPoint::kNonFiniteRow,
                          [](uint64_t key) { return (key & 0xFFFFFFFFu) == 60 && key >> 32 == 5; });
  EngineHarness engine;
  const std::vector<Outcome> outcomes = engine.answer(sixteen());
  expect_neighbours_undisturbed(outcomes, {5});
  EXPECT_EQ(outcomes[5].answers[0].tokens.size(), 11u);
  EXPECT_NE(outcomes[5].status->error().message.find("not finite"), std::string::npos);
  EXPECT_TRUE(engine.engine().healthy());
}

// Which requests a fault ends is found by running each alone; among the sixteen it must end the
// same ones, and the rest must not notice.
void expect_only_the_affected_end(FaultPoint point, const FaultRule& rule, int64_t max_tokens) {
  const std::vector<Outcome> undisturbed = EngineHarness().answer(sixteen(max_tokens));
  const ScopedFault fault(point, rule);
  std::vector<bool> is_affected;
  for (size_t i = 0; i < 16; ++i) {
    std::vector<GenerateRequest> one;
    one.push_back(std::move(sixteen(max_tokens)[i]));
    is_affected.push_back(
        !EngineHarness({.parallel = 1}).answer(std::move(one))[0].status->has_value());
  }
  const auto affected = std::count(is_affected.begin(), is_affected.end(), true);
  ASSERT_TRUE(affected > 0 && affected < 16) << affected << " requests: nothing is shown";
  const std::vector<Outcome> outcomes = EngineHarness().answer(sixteen(max_tokens));
  for (size_t i = 0; i < 16; ++i) {
    ASSERT_EQ(outcomes[i].status->has_value(), !is_affected[i]) << "request " << i;
    if (is_affected[i]) {
      EXPECT_EQ(outcomes[i].status->error().code, ErrorCode::kUnavailable);
    } else {
      EXPECT_EQ(outcomes[i].answers, undisturbed[i].answers) << "request " << i;
    }
  }
}

TEST(ModelEngine, an_engram_row_that_cannot_be_read_ends_those_that_needed_it) {
  expect_only_the_affected_end(FaultPoint::kEngramRead, [](uint64_t row) { return row == 17; }, 8);
}

TEST(ModelEngine, an_expert_that_cannot_be_read_ends_those_that_chose_it) {
  // Layer 9 is the last: with the cone, only one row of the prompt and one decode step go there.
  expect_only_the_affected_end(
      FaultPoint::kWeightRead, [](uint64_t key) { return key == (uint64_t{9} << 32 | 3); }, 2);
}

TEST(ModelEngine, memory_refused_at_admission_ends_that_request_only) {
  const ScopedFault fault(FaultPoint::kAdmissionMemory, [](uint64_t id) { return id == 4; });
  EngineHarness engine;
  const std::vector<Outcome> outcomes = engine.answer(sixteen());
  size_t refused = 0;
  for (size_t i = 0; i < 16; ++i) {
    if (outcomes[i].status->has_value()) {
      EXPECT_EQ(outcomes[i].answers, undisturbed()[i].answers);
    } else {
      ++refused;
      EXPECT_EQ(outcomes[i].status->error().code, ErrorCode::kResourceExhausted);
    }
  }
  EXPECT_EQ(refused, 1u);
}

// The executor by itself: a sequence whose image travels goes on with the same tokens.
class ExecutorRun {
 public:
  explicit ExecutorRun(const GenerateRequest& request)
      : executor_(make_tiny_executor({.parallel = 2, .step_tokens_max = 512})) {
    for (int32_t page = 0; page < 4; ++page) pages_.push_back(3 - page);
    executor_->open_slot(1, {.sampling = &request.sampling, .prompt = request.prompt});
  }

  // Runs `tokens` from `position` on; returns the token sampled behind them.
  TokenId run(const std::vector<TokenId>& tokens, int64_t position, bool as_pending = false) {
    StepPlan plan;
    plan.step_id = ++step_id_;
    plan.tokens = tokens;
    plan.pages = pages_;
    plan.items.push_back({.slot = 1,
                          .position = position,
                          .num_tokens = static_cast<int32_t>(tokens.size()),
                          .num_pages = 4,
                          .layers = {0, executor_->shape().num_layers},
                          .logits = LogitsFor::kLastToken});
    if (as_pending) {
      plan.tokens[0] = -1;
      plan.pending = {{0, step_id_ - 1, 0}};
    }
    StepResult result;
    EXPECT_TRUE(executor_->launch(plan).has_value());
    EXPECT_TRUE(executor_->collect(result).has_value());
    const auto accepted = static_cast<int32_t>(tokens.size());
    executor_->commit(plan, result, {&accepted, 1}, {});
    return result.items[0].token;
  }

  std::vector<TokenId> generate(TokenId first, int64_t position, int count, bool as_pending) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i)
      tokens.push_back(first = run({first}, position + i, as_pending));
    return tokens;
  }

  ModelExecutor& executor() { return *executor_; }
  std::span<const int32_t> pages() const { return pages_; }

 private:
  std::unique_ptr<ModelExecutor> executor_;
  std::vector<int32_t> pages_;
  uint64_t step_id_ = 0;
};

TEST(ModelExecutor, a_token_not_known_yet_is_the_one_the_last_step_sampled) {
  const GenerateRequest request = make_request(1, 30, 0);
  ExecutorRun known(request), pending(request);
  const TokenId first = known.run(request.prompt, 0);
  EXPECT_EQ(pending.run(request.prompt, 0), first);
  EXPECT_EQ(known.generate(first, 30, 12, false), pending.generate(first, 30, 12, true));
}

TEST(ModelExecutor, an_image_restored_elsewhere_goes_on_with_the_same_tokens) {
  for (const int64_t length : {1, 15, 16, 17, 40, 255, 256, 301}) {
    const GenerateRequest request = make_request(2, length, 0);
    ExecutorRun origin(request), target(request);
    const TokenId first = origin.run(request.prompt, 0);
    const Result<SequenceImage> image = origin.executor().save(1, origin.pages());
    ASSERT_TRUE(image.has_value());
    const Result<SequenceImage> arrived = deserialize_sequence_image(serialize(*image));
    ASSERT_TRUE(arrived.has_value());
    EXPECT_EQ(*arrived, *image);
    ASSERT_TRUE(target.executor().restore(1, target.pages(), *arrived).has_value());
    EXPECT_EQ(target.generate(first, length, 20, false), origin.generate(first, length, 20, false))
        << "length " << length;
  }
}

TEST(ModelExecutor, an_image_of_another_model_or_numerics_is_refused_by_name) {
  const GenerateRequest request = make_request(2, 20, 0);
  ExecutorRun origin(request), target(request);
  origin.run(request.prompt, 0);
  SequenceImage image = *origin.executor().save(1, origin.pages());
  image.numerics_id = "v41-f64-2";
  const Result<void> refused = target.executor().restore(1, target.pages(), image);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("v41-f32-2 expected, v41-f64-2 found"), std::string::npos);
}

}  // namespace
}  // namespace yeoul
