#include "scheduler/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

TEST(AdmissionPolicy, admits_by_priority_then_arrival) {
  const std::vector<WaitingView> waiting = {
      {.arrival = 1, .priority = -1, .pages = 1},
      {.arrival = 3, .priority = 0, .pages = 1},
      {.arrival = 2, .priority = 0, .pages = 1},
  };
  EXPECT_EQ(choose_admission(waiting, {.slots = 1, .pages = 8}), 2u);
}

TEST(AdmissionPolicy, the_shorter_rest_goes_first_until_the_longer_has_waited) {
  std::vector<WaitingView> waiting = {{.arrival = 1, .rest = {.tokens = 5000}, .pages = 1},
                                      {.arrival = 2, .rest = {.tokens = 100}, .pages = 1}};
  const AdmissionRoom room = {.slots = 1, .pages = 8};
  EXPECT_EQ(choose_admission(waiting, room), 1u);
  waiting[0].rest.waited = kAgeing * 4900;
  EXPECT_EQ(choose_admission(waiting, room), 0u);
  waiting[1].priority = 1;
  EXPECT_EQ(choose_admission(waiting, room), 1u);
}

TEST(AdmissionPolicy, admits_nobody_without_a_slot_or_pages) {
  const std::vector<WaitingView> waiting = {{.arrival = 1, .pages = 4}};
  EXPECT_EQ(choose_admission(waiting, {.slots = 0, .pages = 8}), std::nullopt);
  EXPECT_EQ(choose_admission(waiting, {.slots = 1, .pages = 3}), std::nullopt);
  EXPECT_EQ(choose_admission(waiting, {.slots = 1, .pages = 4}), 0u);
  EXPECT_EQ(choose_admission({}, {.slots = 1, .pages = 4}), std::nullopt);
}

TEST(AdmissionPolicy, a_small_one_passes_a_big_one_up_to_the_bound) {
  std::vector<WaitingView> waiting = {{.arrival = 1, .pages = 10}, {.arrival = 2, .pages = 1}};
  const AdmissionRoom room = {.slots = 1, .pages = 4};
  EXPECT_EQ(choose_admission(waiting, room), 1u);
  waiting[0].passed_by = kPassedByMax;
  EXPECT_EQ(choose_admission(waiting, room), std::nullopt);
  EXPECT_EQ(choose_admission(waiting, {.slots = 1, .pages = 10}), 0u);
}

TEST(AdmissionPolicy, one_that_was_passed_often_enough_goes_before_a_higher_priority) {
  const std::vector<WaitingView> waiting = {
      {.arrival = 1, .priority = -1, .passed_by = kPassedByMax, .pages = 2},
      {.arrival = 2, .priority = 5, .pages = 1}};
  EXPECT_EQ(choose_admission(waiting, {.slots = 1, .pages = 4}), 0u);
}

// The stated bound on waiting, under traffic that always offers a smaller or more urgent rival.
TEST(AdmissionPolicy, nobody_is_passed_by_more_than_the_bound_whatever_comes) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    constexpr int64_t kPages = 20;
    struct Runner {
      int64_t pages;
      uint64_t until;
    };
    std::vector<WaitingView> waiting;
    std::vector<Runner> running;
    uint64_t arrivals = 0;
    for (uint64_t turn = 0; turn < 2000; ++turn) {
      const uint64_t bits = counter_bits(mix64(seed), turn);
      for (uint64_t i = bits % 3; i > 0 && waiting.size() < 100; --i)
        waiting.push_back({.arrival = arrivals++,
                           .priority = static_cast<int32_t>((bits >> 8) % 3) - 1,
                           .pages = (bits >> 16) % 10 == 0
                                        ? kPages
                                        : 1 + static_cast<int64_t>((bits >> 24) % 6)});
      std::erase_if(running, [turn](const Runner& runner) { return runner.until <= turn; });
      for (;;) {
        AdmissionRoom room = {.slots = 4 - static_cast<int32_t>(running.size()), .pages = kPages};
        for (const Runner& runner : running) room.pages -= runner.pages;
        const std::optional<size_t> chosen = choose_admission(waiting, room);
        if (!chosen) break;
        const WaitingView view = waiting[*chosen];
        ASSERT_LE(view.pages, room.pages);
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(*chosen));
        running.push_back({view.pages, turn + 1 + (bits >> 32) % 5});
        for (WaitingView& other : waiting) {
          other.passed_by += other.arrival < view.arrival ? 1 : 0;
          ASSERT_LE(other.passed_by, kPassedByMax) << "seed " << seed << " turn " << turn;
        }
      }
      // Whoever may not be passed any more gets in as the running ones end: the engine never
      // stands still with someone waiting.
      ASSERT_FALSE(running.empty() && !waiting.empty()) << "seed " << seed << " turn " << turn;
    }
  }
}

std::vector<int32_t> granted(const std::vector<RunningView>& running, int32_t step_tokens_max) {
  std::vector<int32_t> result(running.size(), -1);
  grant_tokens(running, {.step_tokens_max = step_tokens_max}, result);
  return result;
}

RunningView decoding(uint64_t arrival) {
  return {.arrival = arrival, .prefill_len = 10, .known_len = 15, .committed_len = 14};
}

RunningView reading(uint64_t arrival, int64_t prompt_len, int64_t committed_len) {
  return {.arrival = arrival,
          .prefill_len = prompt_len,
          .known_len = prompt_len,
          .committed_len = committed_len};
}

TEST(TokenPolicy, every_decoding_sequence_gets_its_row_before_any_prompt) {
  EXPECT_EQ(granted({reading(1, 100, 0), decoding(2), decoding(3), decoding(4)}, 4),
            (std::vector<int32_t>{1, 1, 1, 1}));
  EXPECT_EQ(granted({reading(1, 100, 0), decoding(2)}, 16), (std::vector<int32_t>{15, 1}));
}

TEST(TokenPolicy, the_shortest_rest_is_read_first_and_among_equals_the_first_to_come) {
  EXPECT_EQ(granted({reading(4, 100, 0), reading(9, 30, 20), reading(5, 100, 0)}, 16),
            (std::vector<int32_t>{6, 10, 0}));
}

TEST(TokenPolicy, waiting_makes_up_for_length) {
  std::vector<RunningView> running = {reading(1, 1000, 0), reading(2, 10, 0)};
  running[0].waited = kAgeing * 990 - 1;
  EXPECT_EQ(granted(running, 8), (std::vector<int32_t>{0, 8}));
  running[0].waited = kAgeing * 990;
  EXPECT_EQ(granted(running, 8), (std::vector<int32_t>{8, 0}));
}

TEST(TokenPolicy, prompts_stay_within_their_part_of_the_step) {
  std::vector<int32_t> result(2);
  const std::vector<RunningView> running = {decoding(1), reading(2, 100, 0)};
  grant_tokens(running, {.step_tokens_max = 64, .prefill_tokens_max = 20}, result);
  EXPECT_EQ(result, (std::vector<int32_t>{1, 20}));
}

TEST(TokenPolicy, a_prompt_of_higher_priority_is_read_first) {
  std::vector<RunningView> running = {reading(1, 100, 0), reading(2, 12, 0)};
  running[1].priority = 1;
  EXPECT_EQ(granted(running, 16), (std::vector<int32_t>{4, 12}));
}

TEST(TokenPolicy, a_paused_sequence_gets_nothing_and_costs_nothing) {
  std::vector<RunningView> running = {decoding(1), reading(2, 20, 0), reading(3, 20, 0)};
  running[0].is_paused = running[1].is_paused = true;
  EXPECT_EQ(granted(running, 8), (std::vector<int32_t>{0, 0, 8}));
}

// The stated bound on what goes before a running prompt, under traffic that always offers a shorter
// one.
TEST(TokenPolicy, nobody_is_passed_by_more_tokens_than_the_bound_whatever_comes) {
  constexpr int32_t kStep = 16;
  constexpr size_t kPlaces = 6;
  struct Prompt {
    RunningView view;
    int64_t came = 0;
    int64_t passed = 0;
  };
  for (uint64_t seed = 0; seed < 40; ++seed) {
    std::vector<Prompt> prompts;
    int64_t computed = 0;
    uint64_t arrivals = 0;
    for (uint64_t turn = 0; turn < 3000; ++turn) {
      const uint64_t bits = counter_bits(mix64(seed), turn);
      while (prompts.size() < kPlaces) {
        const uint64_t more = counter_bits(mix64(seed + 100), arrivals);
        const int64_t len = 1 + static_cast<int64_t>(more % (more % 9 == 0 ? 600 : 20));
        prompts.push_back({.view = reading(arrivals++, len, 0), .came = computed});
      }
      std::vector<RunningView> running;
      for (Prompt& prompt : prompts) {
        prompt.view.waited = computed - prompt.came;
        running.push_back(prompt.view);
      }
      const int32_t most = bits % 3 == 0 ? 5 : kStep;
      std::vector<int32_t> given(running.size());
      grant_tokens(running, {.step_tokens_max = kStep, .prefill_tokens_max = most}, given);
      for (size_t i = 0; i < prompts.size(); ++i) {
        for (size_t j = 0; given[i] == 0 && j < prompts.size(); ++j)
          if (running[j].arrival > running[i].arrival) prompts[i].passed += given[j];
        ASSERT_LE(prompts[i].passed, passed_tokens_max(running[i].prefill_len, kPlaces, kStep))
            << "seed " << seed << " turn " << turn;
      }
      for (size_t i = 0; i < prompts.size(); ++i) {
        prompts[i].view.committed_len += given[i];
        computed += given[i];
      }
      std::erase_if(prompts, [](const Prompt& prompt) {
        return prompt.view.committed_len == prompt.view.prefill_len;
      });
    }
  }
}

TEST(TokenPolicy, fewer_rows_than_decoding_sequences_is_a_programmer_error) {
  std::vector<int32_t> result(2);
  const std::vector<RunningView> running = {decoding(1), decoding(2)};
  EXPECT_DEATH(grant_tokens(running, {.step_tokens_max = 1}, result),
               "too small for the decode rows");
}

TEST(VictimPolicy, the_last_to_arrive_of_the_lowest_priority_goes) {
  std::vector<RunningView> running = {decoding(2), decoding(7), decoding(5)};
  EXPECT_EQ(choose_victim(running), 1u);
  running[0].priority = -1;
  EXPECT_EQ(choose_victim(running), 0u);
  running[1].priority = running[2].priority = -1;
  EXPECT_EQ(choose_victim(running), 1u);
}

TEST(VictimPolicy, the_last_one_that_runs_is_left_alone) {
  EXPECT_EQ(choose_victim({}), std::nullopt);
  const std::vector<RunningView> running = {decoding(2)};
  EXPECT_EQ(choose_victim(running), std::nullopt);
}

}  // namespace
}  // namespace yeoul
