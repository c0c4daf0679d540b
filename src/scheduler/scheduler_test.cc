#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "scheduler/invariants.h"

namespace yeoul {
namespace {

constexpr SchedulerLimits kLimits = {.parallel = 2,
                                     .step_tokens_max = 8,
                                     .num_pages = 10,
                                     .sequence_pages_max = 10,
                                     .tokens_per_page = 4,
                                     .num_layers = 40,
                                     .sequences_max = 8};

// A scheduler with sequences whose tokens are 100 * arrival + position.
class SchedulerTest : public testing::Test {
 protected:
  Sequence& add(int64_t prompt_len, int64_t output_max) {
    const auto arrival = static_cast<uint64_t>(sequences_.size());
    std::vector<TokenId>& prompt = prompts_.emplace_back();
    for (int64_t i = 0; i < prompt_len; ++i)
      prompt.push_back(static_cast<TokenId>(100 * static_cast<int64_t>(arrival) + i));
    Sequence& sequence = *sequences_.emplace_back(std::make_unique<Sequence>(
        SequenceSpec{.arrival = arrival, .prompt = prompt, .output_max = output_max}, pool_));
    scheduler_.enqueue(sequence);
    return sequence;
  }

  void admit_all() {
    while (Sequence* sequence = scheduler_.next_admission()) {
      ASSERT_TRUE(sequence->reserve_memory(kLimits.tokens_per_page));
      scheduler_.admit(*sequence);
    }
  }

  // Plans and commits one step; the token that follows position p is p.
  const StepPlan& step() {
    scheduler_.plan(++step_id_, plan_);
    std::vector<int32_t> storage(static_cast<size_t>(page_demand(plan_)));
    auto reserved = PageReservation::make(pool_, storage);
    assign_pages(*reserved, plan_);
    for (const StepItem& item : plan_.items) {
      Sequence& sequence = running_in(item.slot);
      const auto held = static_cast<int32_t>(sequence.page_table().size());
      sequence.commit(item.num_tokens, item.num_pages - held, *reserved);
      if (item.logits == LogitsFor::kLastToken)
        sequence.append_output(static_cast<TokenId>(item.position + item.num_tokens - 1));
    }
    return plan_;
  }

  Sequence& running_in(int32_t slot) {
    for (Sequence* sequence : scheduler_.running())
      if (sequence->slot() == slot) return *sequence;
    ADD_FAILURE() << "nothing runs in slot " << slot;
    return *sequences_.front();
  }

  PagePool pool_{kLimits.num_pages};
  Scheduler scheduler_{kLimits};
  std::deque<std::vector<TokenId>> prompts_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  StepPlan plan_;
  uint64_t step_id_ = 0;
};

TEST_F(SchedulerTest, an_empty_house_plans_an_empty_step) {
  scheduler_.plan(1, plan_);
  EXPECT_TRUE(plan_.empty());
  EXPECT_EQ(scheduler_.next_admission(), nullptr);
}

TEST_F(SchedulerTest, a_prompt_is_read_in_chunks_with_a_cone_and_then_decodes_in_full) {
  const Sequence& sequence = add(11, 3);
  admit_all();
  const std::vector<StepItem> expected = {{.slot = 0,
                                           .position = 0,
                                           .num_tokens = 8,
                                           .num_pages = 2,
                                           .layers = {0, 40},
                                           .cone_end = 11,
                                           .logits = LogitsFor::kNone},
                                          {.slot = 0,
                                           .position = 8,
                                           .num_tokens = 3,
                                           .num_pages = 3,
                                           .layers = {0, 40},
                                           .cone_end = 11,
                                           .logits = LogitsFor::kLastToken},
                                          {.slot = 0,
                                           .position = 11,
                                           .num_tokens = 1,
                                           .num_pages = 3,
                                           .layers = {0, 40},
                                           .cone_end = kFullSchedule,
                                           .logits = LogitsFor::kLastToken}};
  const std::vector<std::vector<TokenId>> tokens = {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10}, {10}};
  for (size_t i = 0; i < expected.size(); ++i) {
    step();
    ASSERT_EQ(plan_.items.size(), 1u);
    EXPECT_EQ(plan_.items[0], expected[i]) << to_string(plan_);
    EXPECT_EQ(plan_.tokens, tokens[i]);
    EXPECT_EQ(plan_.step_id, i + 1);
  }
  EXPECT_EQ(sequence.committed_len(), 12);
}

TEST_F(SchedulerTest, a_prompt_chunk_rides_along_with_decode_rows) {
  add(4, 9);
  admit_all();
  step();
  add(20, 1);
  admit_all();
  step();
  ASSERT_EQ(plan_.items.size(), 2u);
  EXPECT_EQ(plan_.items[0].num_tokens, 1);
  EXPECT_EQ(plan_.items[1].num_tokens, 7);
  EXPECT_EQ(plan_.items[1].first_token, 1);
  EXPECT_EQ(plan_.items[1].first_page, plan_.items[0].num_pages);
}

TEST_F(SchedulerTest, planning_twice_gives_the_same_plan_and_moves_nothing) {
  add(11, 3);
  add(5, 2);
  admit_all();
  StepPlan first;
  StepPlan second;
  scheduler_.plan(1, first);
  scheduler_.plan(1, second);
  EXPECT_EQ(first, second);
  EXPECT_EQ(pool_.num_free(), kLimits.num_pages);
}

TEST_F(SchedulerTest, pages_are_taken_as_tokens_come) {
  const Sequence& sequence = add(5, 20);
  admit_all();
  EXPECT_EQ(pool_.num_used(), 0);
  step();
  EXPECT_EQ(sequence.page_table().size(), 2u);
}

TEST_F(SchedulerTest, one_gets_in_when_its_prompt_fits_whatever_it_may_grow_to) {
  add(12, 29);  // 3 pages and one to grow into, 10 in the end
  const Sequence& second = add(17, 24);
  admit_all();
  EXPECT_EQ(second.phase(), Sequence::Phase::kRunning);
}

TEST_F(SchedulerTest, a_big_one_waits_while_a_small_one_passes_and_is_counted) {
  add(12, 13);                        // wants 4 pages
  Sequence& big = add(24, 8);         // wants 7: does not fit beside the first
  const Sequence& small = add(4, 9);  // wants 2
  admit_all();
  EXPECT_EQ(big.phase(), Sequence::Phase::kWaiting);
  EXPECT_EQ(small.phase(), Sequence::Phase::kRunning);
  EXPECT_EQ(big.passed_by(), 1);
  scheduler_.remove(*sequences_[0]);
  admit_all();
  EXPECT_EQ(big.phase(), Sequence::Phase::kRunning);
}

TEST_F(SchedulerTest, the_end_of_a_sequence_frees_slot_and_pages) {
  add(12, 13);
  admit_all();
  step();
  EXPECT_GT(pool_.num_used(), 0);
  scheduler_.remove(*sequences_[0]);
  EXPECT_EQ(pool_.num_used(), 0);
  EXPECT_TRUE(scheduler_.running().empty());
  add(4, 1);
  admit_all();
  EXPECT_EQ(sequences_[1]->slot(), 0);
}

TEST_F(SchedulerTest, a_victim_waits_in_its_old_place_and_reads_its_output_like_a_prompt) {
  add(3, 9);
  Sequence& victim = add(3, 9);
  add(9, 9);  // no slot for it
  admit_all();
  for (int i = 0; i < 3; ++i) step();
  ASSERT_EQ(victim.output().size(), 3u);
  EXPECT_EQ(scheduler_.choose_victim(), &victim);
  scheduler_.preempt(victim);
  EXPECT_EQ(victim.phase(), Sequence::Phase::kWaiting);
  EXPECT_EQ(victim.page_table().size(), 0u);
  EXPECT_EQ(victim.computed_before(), 5);
  ASSERT_EQ(scheduler_.waiting().size(), 2u);
  EXPECT_EQ(scheduler_.waiting()[0], &victim);
  admit_all();
  step();
  const StepItem& item = plan_.items.back();
  EXPECT_EQ(item.position, 0);
  EXPECT_EQ(item.num_tokens, 6);
  EXPECT_EQ(item.cone_end, 6);
  EXPECT_EQ(item.logits, LogitsFor::kLastToken);
  const std::span<const TokenId> tokens = std::span(plan_.tokens).last(6);
  EXPECT_EQ(std::vector<TokenId>(tokens.begin(), tokens.end()),
            (std::vector<TokenId>{100, 101, 102, 2, 3, 4}));
  EXPECT_EQ(victim.output().size(), 4u);
}

TEST_F(SchedulerTest, when_the_pool_was_dry_only_those_get_in_that_can_run_to_their_end) {
  add(8, 9);                      // up to 4 pages
  Sequence& victim = add(8, 21);  // up to 7
  const Sequence& small = add(8, 5);
  admit_all();
  step();
  scheduler_.preempt(victim);
  admit_all();
  EXPECT_EQ(victim.phase(), Sequence::Phase::kWaiting);
  EXPECT_EQ(small.phase(), Sequence::Phase::kRunning);
  scheduler_.remove(*sequences_[0]);
  admit_all();
  EXPECT_EQ(victim.phase(), Sequence::Phase::kRunning);
}

TEST_F(SchedulerTest, nobody_waits_for_the_end_of_those_that_are_paused) {
  Sequence& first = add(8, 9);
  Sequence& victim = add(4, 25);
  admit_all();
  step();
  scheduler_.preempt(victim);
  first.pause(true);
  EXPECT_EQ(scheduler_.next_admission(), &victim);
}

TEST_F(SchedulerTest, those_that_wait_for_a_victim_wait_no_longer) {
  add(8, 9);
  Sequence& leader = add(20, 2);
  Sequence& follower = add(20, 2);
  admit_all();
  follower.wait_for(leader, 16);
  ASSERT_TRUE(follower.is_held());
  scheduler_.preempt(leader);
  EXPECT_EQ(follower.leader(), nullptr);
}

TEST_F(SchedulerTest, a_waiting_sequence_can_leave_the_queue) {
  for (int i = 0; i < 3; ++i) add(4, 1);
  admit_all();
  ASSERT_EQ(scheduler_.waiting().size(), 1u);
  scheduler_.remove(*sequences_[2]);
  EXPECT_TRUE(scheduler_.waiting().empty());
}

TEST_F(SchedulerTest, the_invariants_hold_and_each_breach_is_found) {
  add(5, 4);
  admit_all();
  add(3, 4);
  admit_all();
  step();
  const SchedulerSnapshot good = snapshot(scheduler_);
  ASSERT_TRUE(check_scheduler(good)) << check_scheduler(good).error().message;
  const auto expect_violation = [&](auto&& change, const char* text) {
    SchedulerSnapshot bad = good;
    change(bad);
    const Result<void> result = check_scheduler(bad);
    ASSERT_FALSE(result) << text;
    EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
  };
  expect_violation([](auto& s) { s.running[1].slot = 0; }, "slot 0 of 2 is used twice");
  expect_violation([](auto& s) { s.limits.num_pages = 1; }, "2 pages, 1 exist");
  expect_violation([](auto& s) { s.running[0].num_pages = 1; }, "do not match");
  expect_violation([](auto& s) { s.running[0].pages_max = 1; }, "more pages than it may hold");
  expect_violation([](auto& s) { s.running[0].known_len = 9; }, "not exactly one pending");
  expect_violation([](auto& s) { s.running[0].prefill_len = 4; }, "its prefill does not end");
  expect_violation([](auto& s) { s.running[0].known_len = 5; }, "nothing left to compute");
  expect_violation([](auto& s) { s.running[0].output_max = 1; }, "ought to have ended");
  expect_violation([](auto& s) { s.running[0].passed_tokens = 1000; }, "1000 tokens of later");
  expect_violation([](auto& s) { s.waiting_passed_by = {kPassedByMax + 1}; }, "passed by 33");
}

}  // namespace
}  // namespace yeoul
