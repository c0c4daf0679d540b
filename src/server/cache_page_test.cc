#include "server/cache_page.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace yeoul {
namespace {

// A system prompt of 100 tokens, two conversations behind it, and a second salt.
CacheReport two_conversations() {
  CacheReport report;
  report.nodes = {{.depth = 0, .begin = 0, .end = 0, .num_children = 1},
                  {.depth = 1, .begin = 0, .end = 100, .num_children = 2, .state = 4},
                  {.depth = 2, .begin = 100, .end = 130, .num_children = 1},
                  {.depth = 3, .begin = 130, .end = 140, .num_children = 0, .state = 7},
                  {.depth = 2, .begin = 100, .end = 150, .num_children = 0, .state = 1},
                  {.depth = 0, .begin = 0, .end = 0, .num_children = 1}};
  report.states = {{4, 100, 1, 0, 1, false}, {7, 140, 1, 1, 2541, false}, {1, 150, 2, 1, 1, true}};
  report.running = {{.request_id = 9,
                     .choice = 1,
                     .prompt_len = 160,
                     .computed_len = 158,
                     .output_len = 0,
                     .pages = 3,
                     .is_paused = true}};
  report.num_nodes = 8;
  report.states_used = 4;
  report.states_total = 12;
  report.pages_kept = 5;
  report.pages_used = 6;
  report.pages_total = 40;
  report.waiting = 2;
  return report;
}

TEST(CachePage, draws_each_branch_under_what_it_shares) {
  EXPECT_EQ(
      draw_cache(two_conversations()),
      "4 of 12 states, 8 nodes; 6 of 40 pages used, 5 by states\n"
      "1 running, 2 waiting\n"
      "  request 9 choice 1: 158 of 160 prompt tokens computed; "
      "0 generated; 3 pages; paused, its reader is behind\n"
      "cache_salt\n"
      "`- 0..100 (100 tokens)  state 4: 1 pages, 0 alone; serves every rest\n"
      "   |- 100..130 (30 tokens)\n"
      "   |  `- 130..140 (10 tokens)  state 7: 1 pages, 1 alone; serves rests from 2541 tokens\n"
      "   `- 100..150 (50 tokens)  state 1: 2 pages, 1 alone; serves every rest; held\n"
      "cache_salt\n"
      "... 2 more nodes\n");
}

TEST(CachePage, programs_get_the_same_as_json) {
  const Json page = *parse_json(format_cache(two_conversations()));
  EXPECT_EQ(page["pages"], (Json{{"used", 6}, {"kept", 5}, {"total", 40}}));
  EXPECT_EQ(page["states"], (Json{{"used", 4}, {"total", 12}}));
  EXPECT_EQ(page["num_nodes"], 8);
  ASSERT_EQ(page["nodes"].size(), 6u);
  EXPECT_FALSE(page["nodes"][2].contains("state"));
  EXPECT_EQ(page["nodes"][4]["state"]["number"], 1);
  EXPECT_EQ(page["nodes"][4]["state"]["is_held"], true);
  EXPECT_EQ(page["nodes"][3]["state"]["least_rest"], 2541);
  EXPECT_EQ(page["running"][0]["computed_tokens"], 158);
}

TEST(CachePage, an_empty_cache_is_two_lines) {
  EXPECT_EQ(draw_cache({}),
            "0 of 0 states, 0 nodes; 0 of 0 pages used, 0 by states\n0 running, 0 waiting\n");
}

}  // namespace
}  // namespace yeoul
