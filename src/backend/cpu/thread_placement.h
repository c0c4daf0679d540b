#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace yeoul {

// One hardware thread that this process may use.
struct Processor {
  int number = 0;  // as the system counts
  int core = 0;    // hardware threads of one core share it
  int node = 0;    // NUMA node
};

// Those of the affinity mask, with their cores and NUMA nodes from hwloc. Where hwloc cannot tell,
// each counts as a core of its own on one node.
std::vector<Processor> usable_processors();
// The same of a made-up machine in hwloc's notation, "numa:2 core:4 pu:2", for tests.
Result<std::vector<Processor>> synthetic_processors(const std::string& description);

// Whether threads are bound to processors and memory is spread over NUMA nodes.
enum class Pin : uint8_t {
  kAuto,  // where it matters and the processors are ours: several nodes or two threads a core, and
          // no CPU quota
  kOn,
  kOff,
};
// "auto", "on" or "off".
Result<Pin> parse_pin(std::string_view name);

// Where the threads of a pool run and how long they wait awake.
struct ThreadPlacement {
  std::vector<int>
      processors;  // one a thread, the caller's first; empty: where the system puts them
  std::chrono::nanoseconds spin_time = std::chrono::microseconds(50);
  bool interleave_memory = false;
};

// Threads take every core once, nodes in turn, before they share one. `quota_cpus` is the CPU quota
// of the cgroup in processors, 0 for none: time spent spinning is taken out of it, so threads that
// could use it up, or that outnumber the processors, go to sleep early.
ThreadPlacement place_threads(const std::vector<Processor>& processors, int num_threads,
                              int quota_cpus, Pin pin);

// From now on pages that the calling thread, or threads that it will start, touch first are spread
// over all NUMA nodes in turn. False where the system does not allow it.
bool interleave_memory();

}  // namespace yeoul
