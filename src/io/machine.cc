#include "io/machine.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string_view>

namespace yeoul {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A number, or `otherwise` for "max", an empty line or a missing file.
int64_t number_in(const std::string& path, int64_t otherwise) {
  const std::string line = first_line(path);
  if (line.empty() || line.find_first_not_of("0123456789") != std::string::npos) return otherwise;
  const int64_t value = std::strtoll(line.c_str(), nullptr, 10);
  return value <= 0 ? otherwise : value;
}

int64_t available_on_machine(const std::string& root) {
  std::ifstream file(root + "proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    constexpr std::string_view kKey = "MemAvailable:";
    if (line.compare(0, kKey.size(), kKey) == 0) {
      return std::strtoll(line.c_str() + kKey.size(), nullptr, 10) * 1024;
    }
  }
  return kNoLimit;
}

}  // namespace

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int64_t available_memory_bytes(const std::string& root) {
  int64_t available = available_on_machine(root);
  // cgroup v2, then v1; inside a container its own group is the root of the tree.
  const std::string cgroup = root + "sys/fs/cgroup/";
  const int64_t limit = std::min(number_in(cgroup + "memory.max", kNoLimit),
                                 number_in(cgroup + "memory/memory.limit_in_bytes", kNoLimit));
  if (limit != kNoLimit) {
    const int64_t used = std::max(number_in(cgroup + "memory.current", 0),
                                  number_in(cgroup + "memory/memory.usage_in_bytes", 0));
    available = std::min(available, std::max<int64_t>(0, limit - used));
  }
  return available;
}

int64_t available_memory_bytes() {
  return available_memory_bytes("/");
}

int quota_cpus(const std::string& root) {
  int64_t quota = 0, period = 0;
  std::istringstream v2(first_line(root + "sys/fs/cgroup/cpu.max"));
  if (!(v2 >> quota >> period)) {  // "max 100000" stops at "max"
    quota = number_in(root + "sys/fs/cgroup/cpu/cpu.cfs_quota_us", 0);
    period = number_in(root + "sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
  }
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::max<int64_t>(1, (quota + period - 1) / period));
}

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
  const int quota = quota_cpus("/");
  return std::max(1, quota == 0 ? allowed : std::min(allowed, quota));
}

}  // namespace yeoul
