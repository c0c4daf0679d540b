// A prompt that goes on from a kept state answers with the bits of a cold run.

#include "engine/prefix_hits.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(PrefixHits, of_every_kind_of_state_give_the_bits_of_a_cold_run) {
  const PrefixHitReport report =
      compare_hits({"models/tiny-random", "tests/golden/data/tiny_engram.json"}, {37, 256}, 1000);
  EXPECT_TRUE(report.violations.empty())
      << report.violations.size() << " of " << report.prompts << ": " << report.violations[0];
  EXPECT_GT(report.hits, report.prompts / 2);
  EXPECT_EQ(2 * report.disk_hits, report.hits);
  EXPECT_LT(report.hits, report.prompts);  // some states do not serve every rest
}

}  // namespace
}  // namespace yeoul
