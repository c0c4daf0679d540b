#include "measure/machine_facts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace yeoul {
namespace {

class MachineFactsTest : public testing::Test {
 protected:
  MachineFactsTest() : root_(testing::TempDir() + "machine_facts_test/") {
    std::filesystem::remove_all(root_);
  }
  ~MachineFactsTest() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(MachineFactsTest, what_the_system_says_is_read) {
  write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast One 9\nflags\t: a b\n");
  write("proc/meminfo",
        "MemTotal: 2048 kB\nMemAvailable: 1024 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\n");
  write("proc/loadavg", "1.25 0.80 0.60 2/300 4711\n");
  write("proc/stat", "cpu 40 0 10 30 0 0 0 20 0 0\ncpu0 1 1 1 1 1 1 1 1\n");
  write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  write("sys/devices/system/cpu/cpu11/topology/core_id", "5\n");
  write("sys/devices/system/cpu/cpufreq/x", "\n");
  write("sys/devices/system/node/node0/cpulist", "0\n");
  write("sys/devices/system/node/node1/cpulist", "11\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const MachineFacts facts = read_machine_facts(root_);
  EXPECT_EQ(facts.processor, "Fast One 9");
  EXPECT_EQ(facts.processors, 2);
  EXPECT_EQ(facts.quota_processors, 2);
  EXPECT_EQ(facts.numa_nodes, 2);
  EXPECT_EQ(facts.governor, "powersave");
  EXPECT_EQ(facts.huge_pages, "madvise");
  EXPECT_EQ(facts.memory_bytes, 2048 * 1024);
  EXPECT_EQ(facts.available_memory_bytes, 1024 * 1024);
  EXPECT_EQ(facts.swap_used_bytes, 60 * 1024);
  EXPECT_DOUBLE_EQ(facts.load, 1.25);
  EXPECT_DOUBLE_EQ(facts.stolen_share, 0.2);
}

TEST_F(MachineFactsTest, a_system_that_says_nothing_leaves_everything_open) {
  const MachineFacts facts = read_machine_facts(root_);
  EXPECT_EQ(facts.processor, "");
  EXPECT_EQ(facts.processors, 0);
  EXPECT_EQ(facts.huge_pages, "");
  EXPECT_EQ(facts.stolen_share, 0);
}

TEST_F(MachineFactsTest, this_machine_has_a_processor) {
  EXPECT_GE(read_machine_facts().allowed_processors, 1);
  EXPECT_GT(read_machine_facts().memory_bytes, 0);
}

}  // namespace
}  // namespace yeoul
