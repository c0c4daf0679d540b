#pragma once

#include <string>

#include "backend/step_profile.h"

namespace yeoul {

// What the machine can do at best; 0 where it was not measured.
struct MachineRoofs {
  double bytes_per_second = 0;
  double operations_per_second = 0;
};

// Two tables for each kind of step that ran: by operation, longest first, and by layer. "of roof"
// is the time that bytes or operations, whichever takes longer, need at best, over the time taken;
// "m" and "c" say which it was. docs/performance.md explains how to read it.
std::string to_string(const StepProfile& profile, const MachineRoofs& roofs);

}  // namespace yeoul
