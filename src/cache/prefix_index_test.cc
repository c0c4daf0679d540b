#include "cache/prefix_index.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace yeoul {
namespace {

using Units = std::vector<TokenId>;

constexpr ResumeShape kShape{.num_layers = 4, .last_source = 2, .reach = 3};

std::vector<int64_t> valid_from(int64_t encoder, int64_t decoder) {
  return {encoder, encoder, decoder, decoder};
}

struct House {
  explicit House(int32_t snapshots)
      : pool(32),
        index(
            pool,
            {.shape = kShape, .tokens_per_page = 4, .snapshots_max = snapshots, .length_max = 32}) {
  }

  PageTable table(size_t num_units) {
    PageTable result(pool);
    while (result.size() * 4 < num_units) result.append(*pool.try_take());
    return result;
  }
  // Its number, or -1 if it was not kept.
  int32_t store(uint64_t root, const Units& units, const std::vector<int64_t>& valid) {
    const int32_t number = *index.reserve_number();
    const bool kept = index.insert(number, root, PrefixUnits(units), table(units.size()), valid);
    return kept ? number : -1;
  }
  PrefixMatch look(uint64_t root, const Units& units) const {
    return index.look(root, PrefixUnits(units));
  }

  PagePool pool;
  PrefixIndex index;
};

TEST(PrefixIndex, resumes_from_the_longest_snapshot_that_the_rest_allows) {
  House house(4);
  const int32_t whole = house.store(1, {1, 2, 3, 4, 5}, valid_from(2, 2));
  const int32_t encoder_only = house.store(1, {1, 2, 3, 4, 5, 6, 7, 8}, valid_from(5, 8));
  // Layer 2 of a prompt of 15 reads window rows from 14 - 2 * 3 = 8 on: none before the snapshot.
  Units prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9};
  EXPECT_EQ(house.index.lookup(1, PrefixUnits(prompt)).hold.snapshot(), encoder_only);
  EXPECT_EQ(house.look(1, prompt).limit, ResumeLimit::kNone);
  prompt.pop_back();
  const PrefixLookup shorter = house.index.lookup(1, PrefixUnits(prompt));
  EXPECT_EQ(shorter.hold.snapshot(), whole);
  EXPECT_EQ(shorter.match.candidate_len, 8);
  EXPECT_EQ(shorter.match.resume_len, 5);
  EXPECT_EQ(shorter.match.limit, ResumeLimit::kRowsMissing);
}

TEST(PrefixIndex, an_edit_in_the_middle_resumes_before_it_and_says_why_not_at_it) {
  House house(4);
  house.store(1, {1, 2, 3}, valid_from(0, 0));
  house.store(1, {1, 2, 3, 4, 5, 6, 7}, valid_from(4, 4));
  const PrefixMatch match = house.look(1, {1, 2, 3, 4, 5, 9, 9});
  EXPECT_EQ(match.shared_len, 5);
  EXPECT_EQ(match.resume_len, 3);
  EXPECT_EQ(match.limit, ResumeLimit::kNoSnapshot);
}

TEST(PrefixIndex, roots_share_nothing) {
  House house(4);
  house.store(1, {1, 2, 3}, valid_from(0, 0));
  EXPECT_EQ(house.look(2, {1, 2, 3, 4}).limit, ResumeLimit::kNothingShared);
  EXPECT_EQ(house.look(1, {1, 2, 3, 4}).resume_len, 3);
}

TEST(PrefixIndex, the_last_token_of_a_repeated_prompt_is_computed) {
  House house(4);
  house.store(1, {1, 2, 3}, valid_from(0, 0));
  EXPECT_EQ(house.look(1, {1, 2, 3}).resume_len, 0);
  EXPECT_EQ(house.look(1, {1, 2, 3}).shared_len, 2);
}

TEST(PrefixIndex, an_output_is_found_as_part_of_a_later_prompt) {
  House house(4);
  const Units prompt = {1, 2, 3};
  const Units output = {4, 5};
  const int32_t number = *house.index.reserve_number();
  EXPECT_TRUE(
      house.index.insert(number, 1, PrefixUnits(prompt, output), house.table(5), valid_from(2, 2)));
  EXPECT_EQ(house.look(1, {1, 2, 3, 4, 5, 6}).resume_len, 5);
  EXPECT_EQ(house.look(1, {1, 2, 3, 4, 6}).shared_len, 4);
}

TEST(PrefixIndex, what_a_lookup_found_stays_until_it_is_let_go) {
  House house(2);
  const int32_t held = house.store(1, {1, 2, 3}, valid_from(0, 0));
  house.store(1, {7, 8}, valid_from(0, 0));
  PrefixLookup found = house.index.lookup(1, PrefixUnits(Units{1, 2, 3, 4}));
  EXPECT_TRUE(house.index.evict());
  EXPECT_FALSE(house.index.evict());
  EXPECT_TRUE(house.index.is_kept(held));
  EXPECT_EQ(house.pool.ref_count(house.index.pages(held).pages()[0]), 1);
  found.hold.release();
  EXPECT_TRUE(house.index.evict());
  EXPECT_EQ(house.pool.num_used(), 0);
}

TEST(PrefixIndex, without_a_free_number_the_least_snapshot_gives_way_or_nothing_is_stored) {
  House house(1);
  const int32_t first = house.store(1, {1, 2, 3}, valid_from(0, 0));
  {
    const PrefixLookup found = house.index.lookup(1, PrefixUnits(Units{1, 2, 3, 4}));
    EXPECT_FALSE(house.index.reserve_number());
  }
  EXPECT_EQ(house.store(1, {5, 6}, valid_from(0, 0)), first);
  EXPECT_EQ(house.look(1, {1, 2, 3, 4}).resume_len, 0);
  EXPECT_EQ(house.index.num_snapshots(), 1);
}

TEST(PrefixIndex, a_snapshot_is_replaced_only_by_one_that_serves_all_it_served) {
  House house(4);
  const Units units = {1, 2, 3, 4, 5, 6, 7};
  const int32_t partial = house.store(1, units, valid_from(4, 7));
  EXPECT_EQ(house.store(1, units, valid_from(5, 4)), -1) << "serves other prompts, not all of them";
  EXPECT_EQ(house.store(1, units, valid_from(4, 7)), -1) << "serves as much";
  EXPECT_TRUE(house.index.is_kept(partial));
  const int32_t whole = house.store(1, units, valid_from(4, 4));
  EXPECT_GE(whole, 0);
  EXPECT_FALSE(whole != partial && house.index.is_kept(partial));
  EXPECT_EQ(house.index.num_snapshots(), 1);
  EXPECT_EQ(house.look(1, {1, 2, 3, 4, 5, 6, 7, 8}).resume_len, 7);
}

TEST(PrefixIndex, what_is_used_and_what_many_share_outlive_what_came_and_went) {
  House house(4);
  const int32_t system = house.store(1, {1, 1, 1, 1, 1, 1}, valid_from(3, 3));
  for (TokenId chat = 0; chat < 8; ++chat) {
    house.store(1, {1, 1, 1, 1, 1, 1, chat}, valid_from(4, 4));
    house.store(1, {2, chat, 3}, valid_from(0, 0));
    house.index.lookup(1, PrefixUnits(Units{1, 1, 1, 1, 1, 1, chat, 5}));
    ASSERT_TRUE(house.index.is_kept(system)) << "chat " << chat;
  }
}

TEST(PrefixIndex, keeps_its_books) {
  House house(4);
  house.store(1, {1, 2, 3, 4, 5, 6}, valid_from(3, 3));
  house.store(1, {1, 2, 3, 9}, valid_from(1, 1));
  EXPECT_EQ(house.index.num_nodes(), 4);  // root, fork, two ends
  EXPECT_TRUE(house.index.check());
  EXPECT_TRUE(house.index.evict());
  EXPECT_EQ(house.index.num_nodes(), 2);
  EXPECT_TRUE(house.index.check());
}

}  // namespace
}  // namespace yeoul
