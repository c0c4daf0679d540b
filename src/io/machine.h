#pragma once

#include <cstdint>
#include <string>

namespace yeoul {

// What this process may use, the cgroup's limits counted where they are tighter than the machine's.

// Bytes of memory: min(available on the machine, cgroup limit less its use).
int64_t available_memory_bytes();

// Processors: min(those of the affinity mask, the cgroup's CPU quota rounded up), at least 1.
int available_cpus();

// The same, from files below `root` ("/" on a machine), for tests.
int64_t available_memory_bytes(const std::string& root);
int quota_cpus(const std::string& root);  // 0: no quota

// Of a file in which the system says one thing; empty when there is none.
std::string first_line(const std::string& path);

}  // namespace yeoul
