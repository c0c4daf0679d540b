#include "scheduler/prefix_sharing.h"

#include <gtest/gtest.h>

#include <vector>

namespace yeoul {
namespace {

// Two decoder layers that look back 5: a prompt reads decoder rows of its last 11 tokens.
constexpr ResumeShape kShape{.num_layers = 4, .last_source = 2, .reach = 5};

class ForkPoint : public testing::Test {
 protected:
  std::optional<Anchor> fork(int64_t shared_len, int64_t follower_len) {
    return fork_point(kShape, leader_, shared_len, follower_len);
  }
  void compute(int64_t num_tokens) {
    PageReservation none = *PageReservation::make(pool_, {});
    leader_.commit(num_tokens, 0, none);
  }

  PagePool pool_{1};
  std::vector<TokenId> prompt_ = std::vector<TokenId>(100, 1);
  Sequence leader_{{.prompt = prompt_, .output_max = 8}, pool_};
};

TEST_F(ForkPoint, of_a_follower_as_long_as_the_leader_is_the_end_of_what_they_share) {
  EXPECT_EQ(fork(60, 100), (Anchor{60, false}));
  compute(59);
  EXPECT_EQ(fork(60, 100), (Anchor{60, false}));
  compute(1);
  EXPECT_EQ(fork(60, 100), std::nullopt);
}

TEST_F(ForkPoint, of_a_follower_with_a_long_rest_needs_no_cone) {
  EXPECT_EQ(fork(60, 71), (Anchor{60, false}));
}

TEST_F(ForkPoint, of_a_short_follower_gets_a_cone_while_the_leader_has_not_come_too_far) {
  EXPECT_EQ(fork(60, 70), (Anchor{60, true}));
  compute(49);  // a cone that ends at 60 begins at 49
  EXPECT_EQ(fork(60, 70), (Anchor{60, true}));
  compute(1);
  // Behind 59 the follower needs no decoder rows.
  EXPECT_EQ(fork(60, 70), (Anchor{59, false}));
  compute(9);
  EXPECT_EQ(fork(60, 70), std::nullopt);
}

TEST_F(ForkPoint, behind_another_anchor_gets_a_cone_at_any_time) {
  EXPECT_TRUE(leader_.add_anchor({55, true}));
  compute(54);
  EXPECT_EQ(fork(60, 70), (Anchor{60, true}));
}

TEST_F(ForkPoint, of_the_same_prompt_is_before_its_last_token) {
  EXPECT_EQ(fork(100, 100), (Anchor{99, false}));
  EXPECT_EQ(fork(100, 140), (Anchor{99, false}));
}

}  // namespace
}  // namespace yeoul
