#include "measure/machine_facts.h"

#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "io/machine.h"

namespace yeoul {
namespace {

namespace fs = std::filesystem;

// What stands behind `key` and a colon in a file of such lines; empty without one.
std::string value_in(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, key.size(), key) != 0) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

int64_t kilobytes_in(const std::string& path, std::string_view key) {
  return std::strtoll(value_in(path, key).c_str(), nullptr, 10) * 1024;
}

// "always [madvise] never" -> "madvise"
std::string chosen_of(const std::string& line) {
  const size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return line.substr(begin + 1, end - begin - 1);
}

// Folders named PREFIX and a number.
int count_numbered(const std::string& folder, std::string_view prefix) {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() > prefix.size() && name.compare(0, prefix.size(), prefix) == 0 &&
        name.find_first_not_of("0123456789", prefix.size()) == std::string::npos) {
      ++count;
    }
  }
  return count;
}

// proc(5): user nice system idle iowait irq softirq steal ...
double stolen_share(const std::string& stat_line) {
  std::istringstream line(stat_line);
  std::string label;
  line >> label;
  double total = 0, stolen = 0, value = 0;
  for (int field = 0; field < 8 && line >> value; ++field) {
    total += value;
    if (field == 7) stolen = value;
  }
  return total > 0 ? stolen / total : 0;
}

}  // namespace

MachineFacts read_machine_facts(const std::string& root) {
  MachineFacts facts;
  const std::string cpu = root + "sys/devices/system/cpu/", meminfo = root + "proc/meminfo";
  facts.processor = value_in(root + "proc/cpuinfo", "model name");
  facts.processors = count_numbered(cpu, "cpu");
  facts.quota_processors = quota_cpus(root);
  facts.numa_nodes = count_numbered(root + "sys/devices/system/node", "node");
  facts.governor = first_line(cpu + "cpu0/cpufreq/scaling_governor");
  facts.huge_pages = chosen_of(first_line(root + "sys/kernel/mm/transparent_hugepage/enabled"));
  facts.memory_bytes = kilobytes_in(meminfo, "MemTotal");
  facts.available_memory_bytes = available_memory_bytes(root);
  facts.swap_used_bytes = kilobytes_in(meminfo, "SwapTotal") - kilobytes_in(meminfo, "SwapFree");
  facts.load = std::strtod(first_line(root + "proc/loadavg").c_str(), nullptr);
  facts.stolen_share = stolen_share(first_line(root + "proc/stat"));
  return facts;
}

MachineFacts read_machine_facts() {
  MachineFacts facts = read_machine_facts("/");
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) facts.allowed_processors = CPU_COUNT(&set);
  return facts;
}

}  // namespace yeoul
