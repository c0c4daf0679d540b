#include "measure/findings.h"

#include <gmock/gmock.h>

namespace yeoul {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

// A machine with nothing to complain about.
struct Machine {
  MachineFacts facts{.processors = 8,
                     .allowed_processors = 8,
                     .numa_nodes = 1,
                     .governor = "performance",
                     .huge_pages = "madvise",
                     .memory_bytes = 64 * kGiB,
                     .available_memory_bytes = 60 * kGiB};
  SpeedFigures speed{.threads = 8,
                     .isa = Isa::kAvx512,
                     .read_bytes_per_s = 200e9,
                     .read_bytes_per_s_one_thread = 40e9,
                     .multiply_flops_per_s = 3.2e12,
                     .multiply_flops_per_s_one_thread = 430e9,
                     .fork_join_s = 1e-6};
  std::optional<DiskFigures> disk = DiskFigures{.filesystem = "ext4",
                                                .is_direct = true,
                                                .latency_s = 80e-6,
                                                .reads_per_s = 60e3,
                                                .bytes_per_s = 3e9};
  int64_t checkpoint_bytes = 10 * kGiB;

  std::vector<std::string> findings() const {
    std::vector<std::string> what;
    for (const Finding& f : find_slow_parts(facts, speed, disk, checkpoint_bytes)) {
      EXPECT_FALSE(f.advice.empty());
      what.push_back(f.what);
    }
    return what;
  }
};

using testing::ElementsAre;
using testing::HasSubstr;

TEST(FindingsTest, a_good_machine_has_none) {
  EXPECT_THAT(Machine().findings(), testing::IsEmpty());
}

TEST(FindingsTest, each_fault_is_said_with_its_figures_and_nothing_else_is) {
  const std::vector<std::pair<std::function<void(Machine&)>, std::string>> faults = {
      {[](Machine& m) { m.facts.quota_processors = 2; }, "2 of 8 processors run"},
      {[](Machine& m) { m.facts.processors = 16; }, "leaves 8 of 16"},
      {[](Machine& m) { m.facts.load = 5.5; }, "5.5 of 8 processors busy"},
      {[](Machine& m) { m.facts.stolen_share = 0.25; }, "25 % of the processor time"},
      {[](Machine& m) { m.facts.governor = "powersave"; }, "\"powersave\""},
      {[](Machine& m) { m.speed.isa = Isa::kScalar; }, "no vector kernels"},
      {[](Machine& m) { m.speed.isa = Isa::kAvx2; }, "AVX2 but not AVX-512"},
      {[](Machine& m) { m.speed.multiply_flops_per_s = 860e9; }, "only 2.0 times"},
      {[](Machine& m) { m.speed.fork_join_s = 50e-6; }, "takes 50 us"},
      {[](Machine& m) { m.facts.swap_used_bytes = 3 * kGiB; }, "3.0 GiB are swapped"},
      {[](Machine& m) { m.facts.huge_pages = "never"; }, "huge pages are off"},
      {[](Machine& m) { m.facts.available_memory_bytes = 20 * kGiB; }, "20.0 of 64.0 GiB"},
      {[](Machine& m) { m.facts.numa_nodes = 2; }, "2 NUMA nodes"},
      {[](Machine& m) { m.speed.read_bytes_per_s = 41e9; }, "41.0 against 40.0 GB/s"},
      {[](Machine& m) { m.disk->is_network = true; }, "network file system"},
      {[](Machine& m) { m.disk->is_direct = false; }, "refuses direct reads"},
      {[](Machine& m) { m.checkpoint_bytes = 500 * kGiB; }, "500.0 GiB, 60.0 GiB"},
  };
  for (const auto& [break_it, expected] : faults) {
    Machine machine;
    break_it(machine);
    EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr(expected)));
  }
}

TEST(FindingsTest, the_latency_of_the_disk_matters_where_weights_are_streamed) {
  Machine machine;
  machine.disk->latency_s = 9e-3;
  EXPECT_THAT(machine.findings(), testing::IsEmpty());
  machine.checkpoint_bytes = 500 * kGiB;
  EXPECT_THAT(machine.findings(), ElementsAre(HasSubstr("500.0 GiB"), HasSubstr("9.0 ms")));
}

TEST(FindingsTest, without_a_checkpoint_nothing_is_said_of_the_disk) {
  Machine machine;
  machine.disk.reset();
  machine.checkpoint_bytes = 0;
  EXPECT_THAT(machine.findings(), testing::IsEmpty());
}

}  // namespace
}  // namespace yeoul
