#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/isa.h"
#include "measure/disk.h"
#include "measure/machine_facts.h"

namespace yeoul {

// What was measured; seconds and units a second. All figures are of this run.
struct SpeedFigures {
  int threads = 0;
  Isa isa = Isa::kScalar;
  double read_bytes_per_s = 0;  // all threads
  double read_bytes_per_s_one_thread = 0;
  double multiply_flops_per_s = 0;  // all threads; the instruction's own peak
  double multiply_flops_per_s_one_thread = 0;
  double fork_join_s = 0;
  // What the engine's own linear layers make of it: weights at one row, products at many.
  double linear_bytes_per_s = 0;
  double linear_flops_per_s = 0;
};

// One thing that makes this machine slower than it could be, and what to do about it.
struct Finding {
  std::string what;  // with the figures that show it
  std::string advice;
};

// Pure. `checkpoint_bytes` is what must be read again and again when it does not fit in memory; 0
// when no checkpoint was named. The most costly findings come first.
std::vector<Finding> find_slow_parts(const MachineFacts& facts, const SpeedFigures& speed,
                                     const std::optional<DiskFigures>& disk,
                                     int64_t checkpoint_bytes);

}  // namespace yeoul
