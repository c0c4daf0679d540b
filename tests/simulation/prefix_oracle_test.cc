#include "prefix_oracle.h"

#include <gtest/gtest.h>

namespace yeoul::simulation {
namespace {

TEST(PrefixOracle, random_lives_answer_like_an_oracle_and_never_reuse_a_page_under_a_node) {
  PrefixOracleReport sum;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const PrefixOracleReport report = run_prefix_oracle(seed, 1000);
    ASSERT_TRUE(report.violations.empty()) << "seed " << seed << ": " << report.violations[0];
    EXPECT_EQ(report.full_rereads, 0);
    sum.hits += report.hits;
    sum.rows_missing += report.rows_missing;
    sum.evictions += report.evictions;
    sum.replaced += report.replaced;
    sum.cancelled += report.cancelled;
    sum.failed += report.failed;
  }
  // The lives were as mixed as they claim.
  EXPECT_GT(sum.hits, 2000);
  EXPECT_GT(sum.rows_missing, 200);
  EXPECT_GT(sum.evictions, 1000);
  EXPECT_GT(sum.replaced, 20);
  EXPECT_GT(sum.cancelled, 100);
  EXPECT_GT(sum.failed, 100);
}

}  // namespace
}  // namespace yeoul::simulation
