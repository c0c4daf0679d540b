#include "backend/cpu/thread_placement.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>

namespace yeoul {
namespace {

// Covers the gaps between the ops of one step; under a quota, only those between short ones.
constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr auto kShortSpinTime = std::chrono::microseconds(5);

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

// Of this machine where `description` is null. Null when hwloc cannot read it. Unfiltered: without
// its groups hwloc lays every node over all processors.
Topology load_topology(const char* description) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return nullptr;
  Topology topology(raw);
  if (description != nullptr && hwloc_topology_set_synthetic(raw, description) != 0) {
    return nullptr;
  }
  return hwloc_topology_load(raw) == 0 ? std::move(topology) : nullptr;
}

std::vector<Processor> processors_of(hwloc_topology_t topology) {
  std::vector<Processor> processors;
  hwloc_obj_t unit = nullptr;
  while ((unit = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_PU, unit)) != nullptr) {
    const hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_CORE, unit);
    processors.push_back({static_cast<int>(unit->os_index),
                          static_cast<int>((core != nullptr ? core : unit)->logical_index),
                          std::max(0, hwloc_bitmap_first(unit->nodeset))});
  }
  return processors;
}

// Cores used once before any is shared, and nodes in turn.
std::vector<int> spread(const std::vector<Processor>& processors) {
  std::map<int, int> threads_of_core;
  std::map<std::pair<int, int>, int> cores_of_node;  // by (threads before it on the core, node)
  std::vector<std::tuple<int, int, int, int>> order;
  for (const Processor& p : processors) {
    const int sharing = threads_of_core[p.core]++;
    const int place = cores_of_node[{sharing, p.node}]++;
    order.emplace_back(sharing, place, p.node, p.number);
  }
  std::sort(order.begin(), order.end());
  std::vector<int> numbers;
  for (const auto& entry : order) numbers.push_back(std::get<3>(entry));
  return numbers;
}

bool shares_cores(const std::vector<Processor>& processors) {
  std::set<int> cores;
  for (const Processor& p : processors) {
    if (!cores.insert(p.core).second) return true;
  }
  return false;
}

bool has_several_nodes(const std::vector<Processor>& processors) {
  return std::any_of(processors.begin(), processors.end(),
                     [&](const Processor& p) { return p.node != processors.front().node; });
}

}  // namespace

std::vector<Processor> usable_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return {{}};
  std::vector<Processor> processors;
  if (const Topology topology = load_topology(nullptr)) {
    for (const Processor& p : processors_of(topology.get())) {
      if (p.number < CPU_SETSIZE && CPU_ISSET(p.number, &allowed)) processors.push_back(p);
    }
  }
  if (!processors.empty()) return processors;
  for (int number = 0; number < CPU_SETSIZE; ++number) {
    if (CPU_ISSET(number, &allowed)) processors.push_back({number, number, 0});
  }
  return processors;
}

Result<std::vector<Processor>> synthetic_processors(const std::string& description) {
  const Topology topology = load_topology(description.c_str());
  if (topology == nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("a machine in hwloc's notation expected, {} found", description));
  }
  return processors_of(topology.get());
}

Result<Pin> parse_pin(std::string_view name) {
  if (name == "auto") return Pin::kAuto;
  if (name == "on") return Pin::kOn;
  if (name == "off") return Pin::kOff;
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("--pin: auto, on or off expected, {} found", name));
}

ThreadPlacement place_threads(const std::vector<Processor>& processors, int num_threads,
                              int quota_cpus, Pin pin) {
  const bool is_crowded = num_threads > static_cast<int>(processors.size());
  const bool is_rationed = quota_cpus > 0 && quota_cpus <= num_threads;
  const bool has_nodes = has_several_nodes(processors);
  ThreadPlacement placement;
  placement.spin_time = is_crowded || is_rationed ? kShortSpinTime : kSpinTime;
  const bool matters = (has_nodes || shares_cores(processors)) && quota_cpus == 0;
  const bool is_wanted = pin == Pin::kOn || (pin == Pin::kAuto && matters);
  if (is_wanted && !is_crowded) {
    placement.processors = spread(processors);
    placement.processors.resize(static_cast<size_t>(num_threads));
  }
  placement.interleave_memory = has_nodes && pin != Pin::kOff;
  return placement;
}

bool interleave_memory() {
  const Topology topology = load_topology(nullptr);
  if (topology == nullptr) return false;
  return hwloc_set_membind(topology.get(), hwloc_topology_get_topology_nodeset(topology.get()),
                           HWLOC_MEMBIND_INTERLEAVE,
                           HWLOC_MEMBIND_BYNODESET | HWLOC_MEMBIND_THREAD) == 0;
}

}  // namespace yeoul
