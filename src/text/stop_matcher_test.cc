#include "text/stop_matcher.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

namespace yeoul {
namespace {

struct Seen {
  std::string text;
  std::string stop_string;
  bool stopped = false;
};

Seen run(std::vector<std::string> stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(std::move(stops));
  Seen seen;
  for (const std::string& piece : pieces) {
    const StopMatcher::Output out = matcher.push(piece);
    seen.text += out.text;
    seen.stopped = out.stopped;
    seen.stop_string = out.stop_string;
    if (out.stopped) return seen;
  }
  seen.text += matcher.finish();
  return seen;
}

TEST(StopMatcher, a_stop_string_is_found_across_borders_and_not_shown) {
  const Seen seen = run({"END"}, {"some text E", "N", "D and more"});
  EXPECT_TRUE(seen.stopped);
  EXPECT_EQ(seen.text, "some text ");
  EXPECT_EQ(seen.stop_string, "END");
}

TEST(StopMatcher, text_that_may_begin_a_stop_string_is_held_back_and_comes_out_later) {
  StopMatcher matcher({"abac"});
  EXPECT_EQ(matcher.push("xab").text, "x");
  EXPECT_EQ(matcher.push("a").text, "");
  EXPECT_EQ(matcher.push("b").text, "ab");
  EXPECT_EQ(matcher.finish(), "ab");
}

TEST(StopMatcher, the_match_that_ends_first_wins_and_among_those_the_longest) {
  EXPECT_EQ(run({"abcd", "bc"}, {"xabcd"}).stop_string, "bc");
  EXPECT_EQ(run({"bc", "abc"}, {"xabc"}).stop_string, "abc");
  EXPECT_EQ(run({"bc", "abc"}, {"xabc"}).text, "x");
}

TEST(StopMatcher, nothing_follows_a_stop) {
  StopMatcher matcher({"\n"});
  EXPECT_TRUE(matcher.push("a\nb").stopped);
  EXPECT_EQ(matcher.push("c").text, "");
  EXPECT_TRUE(matcher.push("c").stopped);
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, without_stop_strings_everything_passes_at_once) {
  StopMatcher matcher({"", ""});
  EXPECT_EQ(matcher.push("abc").text, "abc");
}

// The definition, on the whole text.
Seen search(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::string longest;
    for (const std::string& stop : stops) {
      const bool ends_here = stop.size() <= end && stop.size() > longest.size() &&
                             text.compare(end - stop.size(), stop.size(), stop) == 0;
      if (ends_here) longest = stop;
    }
    if (!longest.empty()) return {text.substr(0, end - longest.size()), longest, true};
  }
  return {text, "", false};
}

TEST(StopMatcher, any_borders_give_what_a_search_of_the_whole_text_gives) {
  rc::check([] {
    const auto word = [](int most) {
      return rc::gen::mapcat(rc::gen::inRange(0, most), [](int length) {
        return rc::gen::container<std::string>(static_cast<size_t>(length),
                                               rc::gen::inRange<char>('a', 'c'));
      });
    };
    const auto stops = *rc::gen::container<std::vector<std::string>>(word(6));
    const auto pieces = *rc::gen::container<std::vector<std::string>>(word(5));
    std::string whole;
    for (const std::string& piece : pieces) whole += piece;
    const Seen found = run(stops, pieces);
    const Seen expected = search(stops, whole);
    RC_ASSERT(found.stopped == expected.stopped);
    RC_ASSERT(found.text == expected.text);
    RC_ASSERT(found.stop_string == expected.stop_string);
  });
}

// What is shown never has to be taken back, and nothing is held that cannot begin a stop string.
TEST(StopMatcher, only_a_prefix_of_a_stop_string_is_held_back) {
  rc::check([] {
    const std::vector<std::string> stops = {"aab", "abab", "bbb"};
    const auto text = *rc::gen::container<std::string>(rc::gen::inRange<char>('a', 'c'));
    StopMatcher matcher(stops);
    const StopMatcher::Output out = matcher.push(text);
    if (out.stopped) return;
    const std::string held = matcher.finish();
    RC_ASSERT(out.text + held == text);
    RC_ASSERT(held.empty() || std::any_of(stops.begin(), stops.end(), [&](const auto& stop) {
                return stop.starts_with(held);
              }));
  });
}

}  // namespace
}  // namespace yeoul
