#include "measure/findings.h"

#include <fmt/format.h>

namespace yeoul {
namespace {

constexpr double kGiga = 1e9, kGibi = 1024.0 * 1024 * 1024;

using Findings = std::vector<Finding>;

void check_processors(const MachineFacts& facts, const SpeedFigures& speed, Findings& out) {
  if (facts.quota_processors > 0 && facts.quota_processors < facts.allowed_processors) {
    out.push_back({fmt::format("the cgroup's CPU quota lets {} of {} processors run at a time",
                               facts.quota_processors, facts.allowed_processors),
                   fmt::format("raise the quota (docker --cpus, systemd CPUQuota), or keep "
                               "--threads at {} so that no thread is stopped in mid-step",
                               facts.quota_processors)});
  }
  if (facts.allowed_processors > 0 && facts.processors > facts.allowed_processors) {
    out.push_back({fmt::format("the affinity mask leaves {} of {} processors to this process",
                               facts.allowed_processors, facts.processors),
                   "start it without taskset, or widen the cpuset"});
  }
  if (facts.load > 0.5 * facts.allowed_processors) {
    out.push_back(
        {fmt::format("other programs kept {:.1f} of {} processors busy during the last "
                     "minute",
                     facts.load, facts.allowed_processors),
         "the figures above are those of a busy machine: stop the others, measure again"});
  }
  if (facts.stolen_share > 0.02) {
    out.push_back({fmt::format("{:.0f} % of the processor time since boot went to other guests of "
                               "the host",
                               100 * facts.stolen_share),
                   "figures vary with the neighbours; ask for dedicated processors"});
  }
  if (!facts.governor.empty() && facts.governor != "performance") {
    out.push_back({fmt::format("the frequency governor is \"{}\"", facts.governor),
                   "cpupower frequency-set -g performance"});
  }
  if (speed.isa == Isa::kScalar) {
    out.push_back(
        {"there are no vector kernels for this processor: AVX2 with FMA, AVX-512 with "
         "BF16 and VNNI, or NEON expected",
         "in a virtual machine, pass the host's processor through (-cpu host)"});
  } else if (speed.isa == Isa::kAvx2) {
    out.push_back(
        {"the processor has AVX2 but not AVX-512 with BF16 and VNNI: long prompts are "
         "read several times slower",
         "in a virtual machine, check that the host does not hide it (-cpu host)"});
  }
}

void check_scaling(const SpeedFigures& speed, Findings& out) {
  if (speed.threads < 2) return;
  const double products = speed.multiply_flops_per_s / speed.multiply_flops_per_s_one_thread;
  if (products < 0.6 * speed.threads) {
    out.push_back({fmt::format("{} threads multiply only {:.1f} times as fast as one: {:.0f} "
                               "against {:.0f} GFLOP/s",
                               speed.threads, products, speed.multiply_flops_per_s / kGiga,
                               speed.multiply_flops_per_s_one_thread / kGiga),
                   "the processors are busy with something else, or two of them share a core: "
                   "look at the load, and try --threads with the number of cores"});
  }
  if (speed.fork_join_s > 20e-6) {
    out.push_back({fmt::format("handing work to {} threads takes {:.0f} us, and a step does it "
                               "hundreds of times",
                               speed.threads, speed.fork_join_s * 1e6),
                   "the processors are shared: leave one to the rest of the system (--threads)"});
  }
}

void check_memory(const MachineFacts& facts, const SpeedFigures& speed, Findings& out) {
  if (facts.swap_used_bytes > 1 << 20) {
    out.push_back({fmt::format("{:.1f} GiB are swapped out",
                               static_cast<double>(facts.swap_used_bytes) / kGibi),
                   "weights that are swapped are read twice: free memory, or lower --memory"});
  }
  if (facts.huge_pages == "never") {
    out.push_back({"transparent huge pages are off: reading weights misses the TLB",
                   "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  }
  if (facts.available_memory_bytes > 0 && facts.available_memory_bytes < facts.memory_bytes / 2) {
    out.push_back({fmt::format("{:.1f} of {:.1f} GiB of memory are available to this process",
                               static_cast<double>(facts.available_memory_bytes) / kGibi,
                               static_cast<double>(facts.memory_bytes) / kGibi),
                   "look for a memory limit of the cgroup or for other programs"});
  }
  if (facts.numa_nodes > 1) {
    out.push_back({fmt::format("memory lies in {} NUMA nodes: every thread reads a part of the "
                               "weights across them",
                               facts.numa_nodes),
                   "leave --pin at auto or on, which deals the weights out to all nodes and the "
                   "threads to all cores"});
  }
  if (speed.threads > 1 && speed.read_bytes_per_s < 1.2 * speed.read_bytes_per_s_one_thread) {
    out.push_back({fmt::format("{} threads read memory no faster than one: {:.1f} against {:.1f} "
                               "GB/s",
                               speed.threads, speed.read_bytes_per_s / kGiga,
                               speed.read_bytes_per_s_one_thread / kGiga),
                   "memory is the limit of decoding here: more channels help, more threads do "
                   "not"});
  }
}

void check_disk(const MachineFacts& facts, const DiskFigures& disk, int64_t checkpoint_bytes,
                Findings& out) {
  const bool streams = checkpoint_bytes > facts.available_memory_bytes;
  if (streams) {
    out.push_back(
        {fmt::format("the checkpoint has {:.1f} GiB, {:.1f} GiB of memory are available: what does "
                     "not fit is read from the disk again and again, at {:.2f} GB/s",
                     static_cast<double>(checkpoint_bytes) / kGibi,
                     static_cast<double>(facts.available_memory_bytes) / kGibi,
                     disk.bytes_per_s / kGiga),
         "more memory, or a faster NVMe (several in RAID 0)"});
  }
  if (disk.is_network) {
    out.push_back({fmt::format("the checkpoint is on a network file system ({})", disk.filesystem),
                   "copy it to a local NVMe"});
  }
  if (!disk.is_direct) {
    out.push_back(
        {"the file system refuses direct reads: the disk's figures may be those of the "
         "page cache",
         "put the checkpoint on ext4 or xfs"});
  }
  if (streams && disk.latency_s > 1e-3) {
    out.push_back({fmt::format("one 4 KiB read takes {:.1f} ms: a rotating or a remote disk",
                               disk.latency_s * 1e3),
                   "Engram rows and experts need an NVMe"});
  }
}

}  // namespace

std::vector<Finding> find_slow_parts(const MachineFacts& facts, const SpeedFigures& speed,
                                     const std::optional<DiskFigures>& disk,
                                     int64_t checkpoint_bytes) {
  Findings out;
  if (disk) check_disk(facts, *disk, checkpoint_bytes, out);
  check_memory(facts, speed, out);
  check_processors(facts, speed, out);
  check_scaling(speed, out);
  return out;
}

}  // namespace yeoul
