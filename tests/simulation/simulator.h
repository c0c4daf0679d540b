#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yeoul::simulation {

// What one run of the simulator saw. Everything follows from the seed.
struct SimulationReport {
  uint64_t seed = 0;
  int64_t steps = 0;
  int64_t requests = 0;  // admitted
  int64_t refused = 0;
  int64_t tokens = 0;                 // received by readers
  int64_t endings[4] = {0, 0, 0, 0};  // by FinishReason, as the engine counts them
  int64_t prefix_hits = 0;            // sequences that went on from a kept state
  int64_t cached_tokens = 0;
  int64_t snapshots_evicted = 0;
  int64_t preemptions = 0;
  bool device_lost = false;
  int64_t ending_violations = 0;  // requests without exactly one terminal event
  std::vector<std::string> violations;
};

// Runs the production engine, scheduler and page accounting over a scripted executor for at least
// `num_steps` steps of traffic drawn from `seed`: bursts of requests, several choices, stop tokens,
// constraints, deadlines, readers that are slow, stall or leave, item faults, failed admissions,
// preemptions for want of pages and, in some seeds, at any time,
// in some seeds a lost device or a destroyed engine, on tiny page pools; in most, prompts that
// begin like earlier ones and few places for kept states. Checks every invariant after each step,
// and every event of every request against the script.
SimulationReport simulate(uint64_t seed, int64_t num_steps);

// One line: the seed, what happened, and the first violations.
std::string describe(const SimulationReport& report);

}  // namespace yeoul::simulation
