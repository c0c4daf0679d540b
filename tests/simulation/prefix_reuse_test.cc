// What a prompt goes on from, through the engine: hits equal misses, and why not more.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "house.h"

namespace yeoul::simulation {
namespace {

// Window rows 5 back; decoder layers 2 and 3: a state without decoder rows serves a rest of 10
// tokens and more.
HouseOptions with_cache(int64_t interval = 0) {
  HouseOptions options;
  options.engine.num_snapshots = 16;
  options.engine.snapshot_interval = interval;
  return options;
}

// Asks and returns the ending; the answer must be that of a cold run.
RequestFinished ask(House& house, const Question& question) {
  RequestHandle handle = house.submit(question);
  house.settle();
  Answer answer = read(handle);
  EXPECT_EQ(answer.tokens[0], script_tokens(house, question));
  EXPECT_TRUE(house.log.violations.empty()) << house.log.violations.front();
  return std::move(*answer.ending);
}

TEST(PrefixReuse, the_same_prompt_again_computes_its_last_token) {
  House house(with_cache());
  const Question question = make_question(1, 77, 5);
  EXPECT_EQ(ask(house, question).reuse.cached_tokens, 0);
  const RequestFinished again = ask(house, question);
  EXPECT_EQ(again.reuse.cached_tokens, 76);
  EXPECT_EQ(std::string(again.reuse.reason), "");
  EXPECT_EQ(house.log.tokens_computed, 77 + 4 + 1 + 4);
}

TEST(PrefixReuse, a_state_restored_wrongly_would_change_the_answer) {
  HouseOptions options = with_cache();
  options.restores_wrongly = true;
  House house(options);
  const Question first = make_question(1, 77, 5);
  const Question second = make_question(2, 77, 5);
  for (const Question& question : {first, second}) {
    RequestHandle handle = house.submit(question);
    house.settle();
    EXPECT_EQ(read(handle).tokens[0], script_tokens(house, question));
  }
  RequestHandle handle = house.submit(first);
  house.settle();
  EXPECT_NE(read(handle).tokens[0], script_tokens(house, first));
  EXPECT_FALSE(house.log.violations.empty());
}

TEST(PrefixReuse, a_conversation_goes_on_behind_the_answer) {
  House house(with_cache());
  const Question question = make_question(2, 33, 9);
  ask(house, question);
  Question next = question;
  const std::vector<TokenId> answer = script_tokens(house, question);
  next.prompt.insert(next.prompt.end(), answer.begin(), answer.end());
  next.prompt.push_back(7);
  // The last token of the answer was never computed.
  EXPECT_EQ(ask(house, next).reuse.cached_tokens, 33 + 9 - 1);
}

TEST(PrefixReuse, an_edit_in_the_middle_resumes_at_the_interval_before_it) {
  House house(with_cache(16));
  const Question question = make_question(3, 90, 5);
  ask(house, question);
  const RequestFinished edited = ask(house, follow(question, 50, 4, 40));
  EXPECT_EQ(edited.reuse.cached_tokens, 48);
  EXPECT_EQ(edited.reuse.shared_tokens, 50);
  EXPECT_EQ(std::string(edited.reuse.reason), "no_snapshot");
}

TEST(PrefixReuse, rests_around_the_bounds_of_the_cone_resume_where_they_may) {
  // The bound is 2 layers of 5 rows and the last token: 11 tokens behind a state without decoder
  // rows.
  for (int64_t rest = 1; rest <= 14; ++rest) {
    House house(with_cache(16));
    const Question question = make_question(5, 90, 5);
    ask(house, question);
    const RequestFinished next = ask(house, follow(question, 48, 6, rest));
    EXPECT_EQ(next.reuse.cached_tokens, rest >= 11 ? 48 : 32) << "rest " << rest;
    EXPECT_EQ(next.reuse.candidate_tokens, 48);
    EXPECT_EQ(std::string(next.reuse.reason), rest >= 11 ? "" : "rows_missing");
  }
}

TEST(PrefixReuse, an_anchor_serves_every_rest) {
  for (const int64_t anchor : {31, 32, 47, 48}) {
    for (int64_t rest = 1; rest <= 12; ++rest) {
      House house(with_cache());
      Question question = make_question(7, 90, 5);
      question.anchors = {anchor};
      ask(house, question);
      const RequestFinished next =
          ask(house, follow(question, static_cast<size_t>(anchor), 8, rest));
      EXPECT_EQ(next.reuse.cached_tokens, anchor) << "rest " << rest;
    }
  }
}

TEST(PrefixReuse, an_anchor_that_its_state_does_not_reach_is_kept_without_a_cone) {
  House house(with_cache(16));
  const Question first = make_question(9, 90, 5);
  ask(house, first);
  // Resumes at 48 without decoder rows: a cone that ends at 53 would read what is not there.
  Question second = follow(first, 50, 10, 60);
  second.anchors = {53, 80};
  EXPECT_EQ(ask(house, second).reuse.cached_tokens, 48);
  EXPECT_EQ(ask(house, follow(second, 53, 11, 3)).reuse.cached_tokens, 32);
  EXPECT_EQ(ask(house, follow(second, 80, 12, 3)).reuse.cached_tokens, 80);
}

TEST(PrefixReuse, another_salt_shares_nothing) {
  House house(with_cache());
  const Question question = make_question(13, 40, 5);
  ask(house, question);
  GenerateRequest request = to_request(question, house.constraints_alive);
  request.cache_salt = 1;
  RequestHandle handle = *house.engine->submit(std::move(request));
  house.settle();
  const Answer answer = read(handle);
  EXPECT_EQ(answer.ending->reuse.cached_tokens, 0);
  EXPECT_EQ(std::string(answer.ending->reuse.reason), "nothing_shared");
}

TEST(PrefixReuse, a_cancelled_prompt_goes_on_where_it_stopped) {
  HouseOptions options = with_cache();
  options.engine.step_tokens_max = 16;
  House house(options);
  const Question question = make_question(14, 100, 5);
  {
    RequestHandle handle = house.submit(question);
    for (int i = 0; i < 3; ++i) house.engine->step();
  }
  house.engine->step();
  EXPECT_EQ(ask(house, question).reuse.cached_tokens, 48);
}

TEST(PrefixReuse, kept_states_give_way_to_pages_and_no_request_is_refused_or_waits_for_them) {
  HouseOptions options = with_cache(8);
  options.engine.num_pages = 25;  // 200 tokens, as long as a request may be
  House house(options);
  for (uint64_t key = 20; key < 40; ++key) {
    const Question question = make_question(key, 150, 40);
    ask(house, question);
  }
  EXPECT_GT(house.engine->stats().snapshots_evicted, 20);
  const RequestFinished again = ask(house, make_question(39, 150, 40));
  EXPECT_GT(again.reuse.cached_tokens, 0);
}

// Submits all, steps until nothing is left, returns how many tokens of each prompt were reused.
std::vector<int64_t> ask_at_once(House& house, const std::vector<Question>& questions) {
  std::vector<RequestHandle> handles;
  for (const Question& question : questions) handles.push_back(house.submit(question));
  house.settle();
  std::vector<int64_t> cached;
  for (size_t i = 0; i < handles.size(); ++i) {
    const Answer answer = read(handles[i]);
    EXPECT_EQ(answer.tokens[0], script_tokens(house, questions[i]));
    cached.push_back(answer.ending->reuse.cached_tokens);
  }
  EXPECT_TRUE(house.log.violations.empty()) << house.log.violations.front();
  return cached;
}

TEST(PrefixSharing, prompts_that_arrive_together_compute_what_they_share_once) {
  House house(with_cache());
  const Question first = make_question(60, 90, 1);
  std::vector<Question> questions = {first};
  for (uint64_t i = 1; i < 8; ++i) questions.push_back(follow(first, 70, 60 + i, 20));
  for (size_t i = 0; i < questions.size(); ++i) {
    questions[i].output_max = 1;
    questions[i].prompt[70] = static_cast<TokenId>(i);
  }
  EXPECT_EQ(ask_at_once(house, questions), (std::vector<int64_t>{0, 70, 70, 70, 70, 70, 70, 70}));
  EXPECT_EQ(house.log.tokens_computed, 70 + 8 * 20);
}

TEST(PrefixSharing, short_followers_of_a_long_prompt_get_a_cone_at_the_fork) {
  HouseOptions options = with_cache();
  options.engine.step_tokens_max = 16;
  House house(options);
  const Question first = make_question(70, 150, 1);
  RequestHandle leader = house.submit(first);
  house.engine->step();  // shorter ones would go first
  const std::vector<int64_t> cached =
      ask_at_once(house, {follow(first, 60, 71, 3), follow(first, 60, 72, 5)});
  EXPECT_EQ(cached, (std::vector<int64_t>{60, 60}));
}

TEST(PrefixSharing, choices_of_one_request_compute_the_prompt_once) {
  House house(with_cache());
  Question question = make_question(80, 50, 1);
  question.num_choices = 4;
  RequestHandle handle = house.submit(question);
  house.settle();
  const Answer answer = read(handle);
  for (int32_t choice = 0; choice < 4; ++choice)
    EXPECT_EQ(answer.tokens[static_cast<size_t>(choice)], script_tokens(house, question, choice));
  EXPECT_EQ(house.log.tokens_computed, 50 + 3);
}

TEST(PrefixSharing, a_waiter_takes_over_where_a_leader_stopped) {
  HouseOptions options = with_cache();
  options.engine.step_tokens_max = 16;
  House house(options);
  const Question first = make_question(90, 150, 2);
  RequestHandle leader = house.submit(first);
  house.engine->step();  // shorter ones would go first
  const Question second = follow(first, 120, 91, 20);
  const Question third = follow(first, 120, 92, 20);
  RequestHandle handles[] = {house.submit(second), house.submit(third)};
  for (int i = 0; i < 3; ++i) house.engine->step();
  EXPECT_EQ(house.log.slots_open, 1);  // the others wait
  leader = RequestHandle();
  house.settle();
  const Answer answers[] = {read(handles[0]), read(handles[1])};
  EXPECT_EQ(answers[0].ending->reuse.cached_tokens, 64);
  EXPECT_EQ(answers[1].ending->reuse.cached_tokens, 120);
  EXPECT_EQ(answers[0].tokens[0], script_tokens(house, second));
  EXPECT_EQ(answers[1].tokens[0], script_tokens(house, third));
  EXPECT_TRUE(house.log.violations.empty()) << house.log.violations.front();
}

TEST(PrefixSharing, nobody_waits_for_a_leader_of_lower_priority) {
  HouseOptions options = with_cache();
  options.engine.step_tokens_max = 16;
  House house(options);
  const Question question = make_question(95, 150, 2);
  GenerateRequest background = to_request(question, house.constraints_alive);
  background.priority = -1;
  RequestHandle slow = *house.engine->submit(std::move(background));
  house.engine->step();
  RequestHandle urgent = house.submit(question);
  house.engine->step();
  EXPECT_EQ(house.log.slots_open, 2);
  house.settle();
  EXPECT_EQ(read(urgent).tokens[0], script_tokens(house, question));
  EXPECT_EQ(read(slow).tokens[0], script_tokens(house, question));
}

TEST(PrefixReuse, figures_add_up) {
  House house(with_cache());
  int64_t cached = 0;
  for (uint64_t key = 0; key < 6; ++key)
    cached += ask(house, make_question(50 + key % 2, 60, 3)).reuse.cached_tokens;
  const EngineStats stats = house.engine->stats();
  EXPECT_EQ(stats.cached_tokens, cached);
  EXPECT_EQ(stats.prefix_lookups, 6);
  EXPECT_EQ(stats.prefix_hits, 4);
  EXPECT_EQ(stats.prompt_tokens, 6 * 60 - cached);
  EXPECT_EQ(stats.snapshots_used, 4);  // one token before the end of each prompt, and each answer
}

}  // namespace
}  // namespace yeoul::simulation
