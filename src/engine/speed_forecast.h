#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "engine/memory_plan.h"

namespace yeoul {

// What the machine gives the engine, measured or assumed.
struct MachineRates {
  double read_bytes_per_s = 0;  // weights at one row, from memory
  double products_per_s = 0;    // multiplications and additions at many rows
  double disk_bytes_per_s = 0;  // blocks of an expert's size, many under way
  double disk_reads_per_s = 0;  // 4 KiB, many under way
};

// Tensors that are placed and used alike.
struct WeightGroup {
  std::string name;
  int64_t stored_bytes = 0;
  int64_t resident_bytes = 0;  // by the memory plan, once in use
  double token_bytes = 0;      // one decoded token reads
};

// What must be moved and computed.
struct Workload {
  double memory_bytes = 0;
  double operations = 0;
  double disk_bytes = 0;
  double disk_reads = 0;  // of Engram rows
};

enum class SpeedLimit : uint8_t { kMemory, kCompute, kDisk };

// memory_bytes / R and operations / P overlap, the disk does not:
//   seconds = max(memory_bytes / R, operations / P) + disk_bytes / d + disk_reads / q
struct WorkTime {
  double memory_s = 0;
  double compute_s = 0;
  double disk_s = 0;
  double seconds() const;
  SpeedLimit limit() const;  // the longest of the three
};
WorkTime time_of(const Workload& work, const MachineRates& rates);

// How fast a checkpoint runs under a memory plan, from its configuration alone. Experts and Engram
// rows count as chosen evenly, so with a skewed choice and caches that follow it the disk has less
// to do.
struct SpeedForecast {
  std::vector<WeightGroup> groups;
  double resident_experts = 1;  // share of the routed experts that the plan has room for
  int64_t position = 0;         // of the decoded token
  int64_t prompt_tokens = 0;
  int32_t step_tokens = 0;
  Workload decode;   // one token of one sequence
  Workload prefill;  // the prompt of one sequence
};
SpeedForecast forecast_speed(const Checkpoint& checkpoint, const MemoryPlan& plan,
                             int64_t prompt_tokens);

// What goes where and what a token reads of it, then both speeds as the formula above with its
// numbers and the limiting term.
std::string to_string(const SpeedForecast& forecast, const MachineRates& rates);

}  // namespace yeoul
