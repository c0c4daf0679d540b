#include <gtest/gtest.h>

#include "simulator.h"

namespace yeoul::simulation {
namespace {

// To replay a failure: simulate() with the seed it printed, in simulation_test.
TEST(SimulationNightly, ten_thousand_seeds_without_a_violation) {
  for (uint64_t seed = 10'000'000; seed < 10'010'000; ++seed) {
    const SimulationReport report = simulate(seed, 400);
    ASSERT_TRUE(report.violations.empty()) << describe(report);
    ASSERT_EQ(report.ending_violations, 0) << describe(report);
  }
}

// One engine through a long life: counters, pages and slots do not wear out.
TEST(SimulationNightly, long_lives_without_a_violation) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const SimulationReport report = simulate(seed, 200'000);
    ASSERT_TRUE(report.violations.empty()) << describe(report);
  }
}

}  // namespace
}  // namespace yeoul::simulation
