#include "simulator.h"

#include <gtest/gtest.h>

namespace yeoul::simulation {
namespace {

// To replay a failure: replace the first seed by the one it printed, the count by 1.
constexpr uint64_t kFirstSeed = 1;

TEST(Simulation, every_request_ends_once_with_the_tokens_of_its_script) {
  int64_t steps = 0;
  int64_t hits = 0;
  int64_t evicted = 0;
  int64_t preempted = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + 100; ++seed) {
    const SimulationReport report = simulate(seed, 200);
    EXPECT_TRUE(report.violations.empty()) << describe(report);
    EXPECT_EQ(report.ending_violations, 0) << describe(report);
    steps += report.steps;
    hits += report.prefix_hits;
    evicted += report.snapshots_evicted;
    preempted += report.preemptions;
  }
  EXPECT_GE(steps, 10'000);
  EXPECT_GE(hits, 500);
  EXPECT_GE(evicted, 1'000);
  EXPECT_GE(preempted, 500);
}

TEST(Simulation, one_seed_is_one_run) {
  for (const uint64_t seed : {7ull, 8ull, 9ull})
    EXPECT_EQ(describe(simulate(seed, 300)), describe(simulate(seed, 300)));
}

}  // namespace
}  // namespace yeoul::simulation
