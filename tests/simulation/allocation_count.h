#pragma once

#include <cstdint>

namespace yeoul::simulation {

// What whole calls of StepEngine::step allocated while mixed traffic ran through them: arrivals,
// several choices, constraints, stop tokens, slow readers, readers that leave,
// prompts that begin alike, states kept and given up.
struct AllocationCount {
  int64_t steps = 0;
  int64_t admissions = 0;                // sequences that started to run
  int64_t plain_steps = 0;               // steps that neither admitted nor cancelled
  int64_t plain_steps_with_endings = 0;  // of which some ended a request
  int64_t in_plain_steps = 0;            // allocations there
  int64_t prefix_hits = 0;
  int64_t snapshots_evicted = 0;
  int64_t preemptions = 0;
  // Allocations of steps that admitted, beyond the two of each admitted sequence: its output tokens
  // and its page table. They come before the plan. One that was preempted needs neither again.
  int64_t beyond_admission = 0;
};

// Links with counting_new.cc only.
AllocationCount count_allocations(int64_t num_steps);

}  // namespace yeoul::simulation
