#include "backend/cpu/thread_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace yeoul {
namespace {

std::vector<Processor> machine(const std::string& description) {
  const Result<std::vector<Processor>> processors = synthetic_processors(description);
  EXPECT_TRUE(processors.has_value()) << description;
  return processors.value_or(std::vector<Processor>{});
}

std::vector<int> placed(const std::vector<Processor>& processors, int threads, Pin pin = Pin::kOn,
                        int quota = 0) {
  return place_threads(processors, threads, quota, pin).processors;
}

const Processor& processor(const std::vector<Processor>& all, int number) {
  return *std::find_if(all.begin(), all.end(),
                       [&](const Processor& p) { return p.number == number; });
}

TEST(ThreadPlacement, every_core_is_used_once_before_two_threads_share_one) {
  const std::vector<Processor> all = machine("numa:1 core:4 pu:2");
  ASSERT_EQ(all.size(), 8u);
  for (int threads = 1; threads <= 8; ++threads) {
    const std::vector<int> numbers = placed(all, threads);
    ASSERT_EQ(numbers.size(), static_cast<size_t>(threads));
    std::set<int> distinct(numbers.begin(), numbers.end()), cores;
    for (const int number : numbers) cores.insert(processor(all, number).core);
    EXPECT_EQ(distinct.size(), numbers.size());
    EXPECT_EQ(cores.size(), static_cast<size_t>(std::min(threads, 4)));
  }
}

TEST(ThreadPlacement, nodes_take_threads_in_turn) {
  const std::vector<Processor> all = machine("numa:2 core:4 pu:2");
  for (int threads = 2; threads <= 16; threads += 2) {
    int on_first = 0;
    for (const int number : placed(all, threads)) on_first += processor(all, number).node == 0;
    EXPECT_EQ(on_first, threads / 2) << threads;
  }
}

TEST(ThreadPlacement, only_processors_of_the_list_are_taken) {
  // An affinity mask that leaves one hardware thread of core 0 and both of core 2.
  std::vector<Processor> allowed;
  for (const Processor& p : machine("numa:1 core:4 pu:2")) {
    if (p.number == 1 || p.core == 2) allowed.push_back(p);
  }
  ASSERT_EQ(allowed.size(), 3u);
  const std::vector<int> two = placed(allowed, 2);
  EXPECT_NE(processor(allowed, two[0]).core, processor(allowed, two[1]).core);
  EXPECT_EQ(placed(allowed, 3).size(), 3u);
  EXPECT_TRUE(placed(allowed, 4).empty()) << "more threads than processors cannot be bound";
}

TEST(ThreadPlacement, auto_pins_only_where_it_matters_and_the_processors_are_ours) {
  const std::vector<Processor> plain = machine("numa:1 core:4 pu:1");
  const std::vector<Processor> two_threads = machine("numa:1 core:4 pu:2");
  const std::vector<Processor> two_nodes = machine("numa:2 core:2 pu:1");
  EXPECT_TRUE(placed(plain, 4, Pin::kAuto).empty());
  EXPECT_EQ(placed(plain, 4, Pin::kOn).size(), 4u);
  EXPECT_EQ(placed(two_threads, 4, Pin::kAuto).size(), 4u);
  EXPECT_EQ(placed(two_nodes, 4, Pin::kAuto).size(), 4u);
  EXPECT_TRUE(placed(two_nodes, 4, Pin::kAuto, 3).empty()) << "under a quota";
  EXPECT_TRUE(placed(two_nodes, 4, Pin::kOff).empty());
}

TEST(ThreadPlacement, memory_is_spread_where_there_are_nodes_to_spread_it_over) {
  const std::vector<Processor> one = machine("numa:1 core:4 pu:2");
  const std::vector<Processor> two = machine("numa:2 core:2 pu:1");
  EXPECT_FALSE(place_threads(one, 4, 0, Pin::kOn).interleave_memory);
  EXPECT_TRUE(place_threads(two, 4, 0, Pin::kAuto).interleave_memory);
  EXPECT_TRUE(place_threads(two, 4, 2, Pin::kAuto).interleave_memory);
  EXPECT_FALSE(place_threads(two, 4, 0, Pin::kOff).interleave_memory);
}

TEST(ThreadPlacement, threads_that_could_use_up_a_quota_go_to_sleep_early) {
  const std::vector<Processor> all = machine("numa:1 core:8 pu:1");
  const auto full = place_threads(all, 4, 0, Pin::kAuto).spin_time;
  EXPECT_EQ(place_threads(all, 4, 5, Pin::kAuto).spin_time, full);
  EXPECT_LT(place_threads(all, 4, 4, Pin::kAuto).spin_time, full / 5);
  EXPECT_LT(place_threads(all, 4, 2, Pin::kOn).spin_time, full / 5);
  EXPECT_LT(place_threads(all, 9, 0, Pin::kAuto).spin_time, full / 5) << "more than processors";
}

TEST(ThreadPlacement, this_machine_has_processors_and_odd_descriptions_are_refused) {
  std::set<int> numbers;
  for (const Processor& p : usable_processors()) numbers.insert(p.number);
  EXPECT_GE(numbers.size(), 1u);
  EXPECT_EQ(numbers.size(), usable_processors().size());
  EXPECT_FALSE(synthetic_processors("three cores").has_value());
  EXPECT_FALSE(parse_pin("maybe").has_value());
  EXPECT_EQ(*parse_pin("on"), Pin::kOn);
}

}  // namespace
}  // namespace yeoul
