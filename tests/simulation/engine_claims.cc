// Prints the engine's claims, one JSON line each.

#include <fmt/format.h>

#include "allocation_count.h"
#include "simulator.h"

namespace {

void print_claim(const char* name, int64_t value, const char* unit) {
  fmt::print(R"({{"name": "{}", "value": {}, "unit": "{}", "goal": 0, "holds": {}}})"
             "\n",
             name, value, unit, value == 0);
}

}  // namespace

int main() {
  using namespace yeoul::simulation;
  constexpr uint64_t kSeeds = 500;
  constexpr int64_t kStepsPerSeed = 200;
  int64_t violations = 0;
  int64_t ending_violations = 0;
  int64_t steps = 0;
  for (uint64_t seed = 1'000'000; seed < 1'000'000 + kSeeds; ++seed) {
    const SimulationReport report = simulate(seed, kStepsPerSeed);
    steps += report.steps;
    violations += std::ssize(report.violations);
    ending_violations += report.ending_violations;
    if (!report.violations.empty()) fmt::print("{}\n", describe(report));
  }
  const AllocationCount count = count_allocations(5000);
  print_claim("sim_violations", violations,
              fmt::format("violations in {} seeds, {} steps", kSeeds, steps).c_str());
  print_claim("terminal_events_exactly_one", ending_violations,
              fmt::format("requests of {} seeds with another number", kSeeds).c_str());
  print_claim("step_allocations", count.in_plain_steps + count.beyond_admission,
              fmt::format("allocations in {} steps of mixed traffic", count.steps).c_str());
  return 0;
}
