#pragma once

#include <cstdint>
#include <string>

namespace yeoul::simulation {

struct PreemptionRuns {
  int32_t num_snapshots = 0;      // 0: everything is computed again
  bool restores_wrongly = false;  // to see that a difference would be found
};

struct PreemptionReport {
  int64_t runs = 0;
  int64_t preemptions = 0;
  int64_t resumed = 0;      // starts behind a kept state
  int64_t differences = 0;  // choices whose events are not those of the undisturbed run
  std::string first_difference;
};

// A run of several requests (one and more choices, stop tokens, constraints, priorities) again and
// again, each time with another of them preempted at another step, until every pair had its turn.
PreemptionReport preempt_at_every_step(const PreemptionRuns& runs);

}  // namespace yeoul::simulation
