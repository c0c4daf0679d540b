#include "text/marker_trie.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(MarkerTrie, the_leftmost_match_wins_and_at_one_place_the_longest) {
  MarkerTrie trie;
  EXPECT_TRUE(trie.is_empty());
  EXPECT_FALSE(trie.find("anything", 0));
  trie.insert("<a>", 1);
  trie.insert("<a><b>", 2);
  trie.insert("a><b", 3);
  const auto match = trie.find("x<a><b<a><b>", 0);
  ASSERT_TRUE(match);
  EXPECT_EQ(match->begin, 1u);
  EXPECT_EQ(match->end, 4u);
  EXPECT_EQ(match->id, 1);
  const auto inner = trie.find("x<a><b<a><b>", 2);
  ASSERT_TRUE(inner);
  EXPECT_EQ(inner->id, 3);
  const auto last = trie.find("x<a><b<a><b>", 6);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->id, 2);
  EXPECT_EQ(last->end, 12u);
  EXPECT_FALSE(trie.find("x<a><b<a><b>", 11));
}

}  // namespace
}  // namespace yeoul
