#pragma once

#include <cstdint>
#include <string>

namespace yeoul {

// What the system says about itself; what it does not say stays empty or 0.
struct MachineFacts {
  std::string processor;       // the model name
  int processors = 0;          // online
  int allowed_processors = 0;  // of this process's affinity mask
  int quota_processors = 0;    // the cgroup's CPU quota rounded up; 0: none
  int numa_nodes = 0;
  std::string governor;                // of processor 0: "performance", "powersave", ...
  std::string huge_pages;              // of anonymous memory: "always", "madvise", "never"
  int64_t memory_bytes = 0;            // of the machine
  int64_t available_memory_bytes = 0;  // for this process, its cgroup counted
  int64_t swap_used_bytes = 0;
  double load = 0;          // processes that ran or waited, mean of the last minute
  double stolen_share = 0;  // of processor time since boot that another guest had
};

MachineFacts read_machine_facts();

// The same from files below `root` ("/" on a machine), for tests; what only system calls tell
// (allowed_processors) stays 0.
MachineFacts read_machine_facts(const std::string& root);

}  // namespace yeoul
