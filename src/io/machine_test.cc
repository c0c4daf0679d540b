#include "io/machine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace yeoul {
namespace {

// A machine made of files.
class MachineTest : public testing::Test {
 protected:
  MachineTest() : root_(testing::TempDir() + "machine_test/") {
    std::filesystem::remove_all(root_);
    write("proc/meminfo", "MemTotal:  2000 kB\nMemFree:  10 kB\nMemAvailable:    1000 kB\n");
  }
  ~MachineTest() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(MachineTest, without_a_cgroup_the_machine_decides) {
  EXPECT_EQ(available_memory_bytes(root_), 1000 * 1024);
  EXPECT_EQ(quota_cpus(root_), 0);
}

TEST_F(MachineTest, a_tighter_cgroup_limit_wins_less_what_is_used) {
  write("sys/fs/cgroup/memory.max", "500000\n");
  write("sys/fs/cgroup/memory.current", "100000\n");
  EXPECT_EQ(available_memory_bytes(root_), 400000);
}

TEST_F(MachineTest, no_limit_and_a_wider_limit_change_nothing) {
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000 * 1024);
  write("sys/fs/cgroup/memory.max", "99999999999\n");
  EXPECT_EQ(available_memory_bytes(root_), 1000 * 1024);
}

TEST_F(MachineTest, version_one_limits_count_too) {
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "300000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "400000\n");
  EXPECT_EQ(available_memory_bytes(root_), 0);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(quota_cpus(root_), 0);
}

TEST_F(MachineTest, a_cpu_quota_is_rounded_up) {
  write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota_cpus(root_), 2);
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(quota_cpus(root_), 0);
  write("sys/fs/cgroup/cpu.max", "5000 100000\n");
  EXPECT_EQ(quota_cpus(root_), 1);
}

TEST(Machine, this_one_has_something_to_offer) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_GE(available_cpus(), 1);
}

}  // namespace
}  // namespace yeoul
