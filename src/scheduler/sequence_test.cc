#include "scheduler/sequence.h"

#include <gtest/gtest.h>

#include <array>

namespace yeoul {
namespace {

constexpr std::array<TokenId, 5> kPrompt = {10, 11, 12, 13, 14};

TEST(Sequence, the_last_output_token_needs_no_page) {
  PagePool pool(8);
  const auto pages_max = [&](int64_t output_max) {
    return Sequence({.prompt = kPrompt, .output_max = output_max}, pool).pages_max(4);
  };
  EXPECT_EQ(pages_max(1), 2);  // positions 0..4
  EXPECT_EQ(pages_max(4), 2);  // positions 0..7
  EXPECT_EQ(pages_max(5), 3);  // positions 0..8
}

TEST(Sequence, tokens_are_the_prompt_and_then_the_output) {
  PagePool pool(8);
  Sequence sequence({.prompt = kPrompt, .output_max = 2}, pool);
  ASSERT_TRUE(sequence.reserve_memory(4));
  sequence.append_output(77);
  EXPECT_EQ(sequence.known_len(), 6);
  EXPECT_EQ(sequence.token_at(4), 14);
  EXPECT_EQ(sequence.token_at(5), 77);
  EXPECT_DEATH(sequence.token_at(6), "position 6 of 6");
}

TEST(Sequence, commit_takes_over_the_reserved_pages_and_end_returns_them) {
  PagePool pool(8);
  Sequence sequence({.prompt = kPrompt, .output_max = 2}, pool);
  ASSERT_TRUE(sequence.reserve_memory(4));
  sequence.start(3);
  EXPECT_EQ(sequence.slot(), 3);
  std::array<int32_t, 2> storage{};
  auto reserved = PageReservation::make(pool, storage);
  sequence.commit(5, 2, *reserved);
  EXPECT_EQ(sequence.committed_len(), 5);
  EXPECT_EQ(sequence.page_table().size(), 2u);
  EXPECT_TRUE(reserved->remaining().empty());
  sequence.end();
  EXPECT_EQ(sequence.phase(), Sequence::Phase::kEnded);
  EXPECT_EQ(pool.num_free(), 8);
}

TEST(Sequence, a_preempted_one_forgets_what_is_computed_and_the_cones_planned_for_it) {
  PagePool pool(8);
  Sequence sequence({.prompt = kPrompt, .output_max = 3}, pool);
  ASSERT_TRUE(sequence.reserve_memory(4));
  EXPECT_EQ(sequence.prefill_len(), 5);
  sequence.start(3);
  ASSERT_TRUE(sequence.add_anchor({.position = 4, .own_cone = true}));
  EXPECT_EQ(sequence.cone_end(), 4);
  std::array<int32_t, 2> storage{};
  auto reserved = PageReservation::make(pool, storage);
  sequence.commit(5, 2, *reserved);
  sequence.append_output(77);
  sequence.preempt();
  EXPECT_EQ(sequence.phase(), Sequence::Phase::kWaiting);
  EXPECT_EQ(sequence.committed_len(), 0);
  EXPECT_EQ(sequence.computed_before(), 5);
  EXPECT_EQ(pool.num_free(), 8);
  sequence.start(1);
  EXPECT_EQ(sequence.prefill_len(), 6);
  EXPECT_EQ(sequence.cone_end(), 6);
}

TEST(Sequence, it_wants_pages_for_what_it_knows_and_one_more_up_to_its_end) {
  PagePool pool(8);
  EXPECT_EQ(Sequence({.prompt = kPrompt, .output_max = 40}, pool).pages_wanted(4), 3);
  EXPECT_EQ(Sequence({.prompt = kPrompt, .output_max = 2}, pool).pages_wanted(4), 2);
}

TEST(Sequence, committing_unknown_tokens_is_a_programmer_error) {
  PagePool pool(8);
  Sequence sequence({.prompt = kPrompt, .output_max = 2}, pool);
  std::array<int32_t, 2> storage{};
  auto reserved = PageReservation::make(pool, storage);
  EXPECT_DEATH(sequence.commit(6, 0, *reserved), "0 \\+ 6 tokens of 5");
}

}  // namespace
}  // namespace yeoul
