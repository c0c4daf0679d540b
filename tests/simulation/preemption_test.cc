// Sequences that give their pages back and go on later: the answers are those of undisturbed runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "house.h"
#include "preemption_runs.h"

namespace yeoul::simulation {
namespace {

TEST(Preemption, at_every_step_of_a_run_changes_no_answer) {
  for (const int32_t num_snapshots : {0, 16}) {
    const PreemptionReport report = preempt_at_every_step({.num_snapshots = num_snapshots});
    EXPECT_EQ(report.differences, 0) << report.first_difference;
    EXPECT_GT(report.preemptions, 70);
    EXPECT_EQ(report.resumed > 0, num_snapshots > 0);
  }
}

TEST(Preemption, a_state_restored_wrongly_after_it_would_be_noticed) {
  EXPECT_GT(preempt_at_every_step({.num_snapshots = 16, .restores_wrongly = true}).differences, 0);
}

HouseOptions tight(int32_t num_pages) {
  HouseOptions options;
  options.engine.num_pages = num_pages;
  options.engine.parallel = 4;
  return options;
}

std::vector<RequestHandle> submit_all(House& house, const std::vector<Question>& questions) {
  std::vector<RequestHandle> handles;
  for (const Question& question : questions) handles.push_back(house.submit(question));
  return handles;
}

// Four answers of 60 tokens, 8 pages each; 8 to 32 pages in all.
TEST(Preemption, answers_that_do_not_fit_together_take_turns_and_all_come_right) {
  const std::vector<Question> questions = {make_question(1, 5, 60), make_question(2, 9, 55),
                                           make_question(3, 2, 60), make_question(4, 7, 50)};
  for (const int32_t num_snapshots : {0, 8})
    for (int32_t num_pages = 8; num_pages <= 33; ++num_pages) {
      HouseOptions options = tight(num_pages);
      options.engine.num_snapshots = num_snapshots;
      House house(options);
      std::vector<RequestHandle> handles = submit_all(house, questions);
      house.settle();
      for (size_t i = 0; i < questions.size(); ++i)
        EXPECT_EQ(read(handles[i]).tokens[0], script_tokens(house, questions[i]))
            << num_pages << " pages, answer " << i;
      EXPECT_TRUE(house.log.violations.empty()) << house.log.violations.front();
      const EngineStats stats = house.engine->stats();
      EXPECT_EQ(stats.preemptions > 0, num_pages < 29) << num_pages << " pages";
      // Each ending lets those that wait start once more; each start ends in one preemption at
      // most.
      EXPECT_LE(stats.preemptions, 3 * 4) << num_pages << " pages";
      EXPECT_EQ(stats.prompt_tokens, 5 + 9 + 2 + 7);
    }
}

TEST(Preemption, the_first_of_them_is_never_disturbed) {
  House house(tight(10));
  const Question first = make_question(1, 5, 60);
  std::vector<RequestHandle> handles =
      submit_all(house, {first, make_question(2, 5, 60), make_question(3, 5, 60)});
  // One step reads the prompt, 59 more decode.
  for (int i = 0; i < 60; ++i) house.engine->step();
  EXPECT_GT(house.engine->stats().preemptions, 0);
  EXPECT_EQ(read(handles[0]).tokens[0], script_tokens(house, first));
}

TEST(Preemption, the_lower_priority_gives_way) {
  House house(tight(10));
  GenerateRequest background = to_request(make_question(1, 5, 60), house.constraints_alive);
  background.priority = -1;
  RequestHandle low = std::move(*house.engine->submit(std::move(background)));
  const Question question = make_question(2, 5, 60);
  RequestHandle high = house.submit(question);
  for (int i = 0; i < 60; ++i) house.engine->step();
  EXPECT_EQ(read(high).tokens[0], script_tokens(house, question));
  EXPECT_FALSE(read(low).ending);
  house.settle();
  EXPECT_TRUE(read(low).ending);
}

TEST(Preemption, a_big_one_that_waits_for_pages_stops_no_small_one_and_does_not_starve) {
  House house(tight(20));
  RequestHandle first = house.submit(make_question(1, 60, 40));  // 8 pages and one to grow into
  house.engine->step();
  RequestHandle big = house.submit(make_question(2, 100, 5));  // 13 pages and one
  Answer big_answer;
  Answer first_answer;
  int small_ones = 0;
  for (uint64_t i = 0; i < 100 && !big_answer.ending; ++i) {
    RequestHandle small = house.submit(make_question(10 + i, 4, 1));
    house.engine->step();
    read_into(first_answer, first);
    read_into(big_answer, big);
    small_ones += !first_answer.ending && read(small).ending ? 1 : 0;
  }
  EXPECT_GT(small_ones, 20);
  EXPECT_TRUE(big_answer.ending);
}

TEST(Preemption, of_one_choice_leaves_the_others_and_a_broken_constraint_still_ends_them) {
  HouseOptions options;
  House house(options);
  Question question = make_question(5, 9, 30);
  question.num_choices = 2;
  question.constraints = {{.end_after = 12}, {.end_after = 20}};
  RequestHandle handle = house.submit(question);
  {
    int calls = 0;
    const ScopedFault fault(FaultPoint::kPreemption, [&](uint64_t) { return ++calls % 3 == 0; });
    for (int i = 0; i < 30; ++i) house.engine->step();
  }
  house.settle();
  const Answer answer = read(handle);
  for (int32_t choice = 0; choice < 2; ++choice)
    EXPECT_EQ(answer.tokens[static_cast<size_t>(choice)], script_tokens(house, question, choice));
  EXPECT_EQ(answer.finished[0], FinishReason::kStop);
}

TEST(Preemption, progress_never_goes_back) {
  HouseOptions options;
  options.engine.step_tokens_max = 16;
  House house(options);
  RequestHandle handle = house.submit(make_question(6, 60, 3));
  house.engine->step();
  house.engine->step();
  {
    const ScopedFault fault(FaultPoint::kPreemption, [](uint64_t) { return true; });
    house.engine->step();
  }
  Answer answer = read(handle);
  for (int i = 0; i < 20; ++i) {
    house.engine->step();
    read_into(answer, handle);
  }
  int64_t last = 0;
  for (const ProgressEvent& event : answer.progress) {
    EXPECT_GE(event.processed_tokens, last);
    last = event.processed_tokens;
  }
  EXPECT_EQ(last, 60);
  EXPECT_EQ(house.engine->stats().prompt_tokens, 60);
  EXPECT_EQ(house.engine->stats().recomputed_tokens, 32);
}

TEST(Preemption, what_can_never_fit_is_refused_in_tokens) {
  House house(tight(5));
  int64_t alive = 0;
  const auto refused = house.engine->submit(to_request(make_question(1, 30, 20), alive));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message,
            "the prompt has 30 tokens and max_tokens is 20, but the KV memory holds 40 tokens; use "
            "max_tokens of at most 11");
}

}  // namespace
}  // namespace yeoul::simulation
