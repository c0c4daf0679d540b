#include "scheduler/save_points.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

struct Prompt {
  explicit Prompt(size_t length)
      : tokens(length, 1), sequence({.prompt = tokens, .output_max = 8}, pool) {}
  std::vector<int64_t> points(int64_t begin, int64_t end, int64_t interval) const {
    std::vector<int64_t> result;
    append_save_points(sequence, begin, end, interval, result);
    return result;
  }
  PagePool pool{1};
  std::vector<TokenId> tokens;
  Sequence sequence;
};

using Points = std::vector<int64_t>;

TEST(SavePoints, are_every_interval_and_one_before_the_end) {
  const Prompt prompt(100);
  EXPECT_EQ(prompt.points(0, 100, 32), (Points{32, 64, 96, 99}));
  EXPECT_EQ(prompt.points(32, 64, 32), (Points{64}));
  EXPECT_EQ(prompt.points(99, 100, 32), Points());
  EXPECT_EQ(prompt.points(0, 100, 0), (Points{99}));
  EXPECT_EQ(Prompt(1).points(0, 1, 1), Points());
}

TEST(SavePoints, are_at_anchors_and_one_near_the_end_replaces_the_last) {
  Prompt prompt(100);
  EXPECT_TRUE(prompt.sequence.add_anchor({40, true}));
  EXPECT_EQ(prompt.points(0, 100, 32), (Points{32, 40, 64, 96, 99}));
  EXPECT_TRUE(prompt.sequence.add_anchor({98, false}));
  EXPECT_EQ(prompt.points(0, 100, 49), (Points{40, 49, 98}));
}

TEST(SavePoints, are_no_more_than_said) {
  Prompt prompt(1000);
  for (int64_t i = 0; i < 8; ++i) EXPECT_TRUE(prompt.sequence.add_anchor({500 + i, false}));
  EXPECT_EQ(std::ssize(prompt.points(0, 1000, 7)) <= save_points_max(1000, 7), true);
}

}  // namespace
}  // namespace yeoul
