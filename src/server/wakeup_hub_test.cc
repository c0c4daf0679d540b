#include "server/wakeup_hub.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <thread>

namespace yeoul {
namespace {

bool is_readable(const WakeupHub& hub) {
  pollfd entry{hub.descriptor(), POLLIN, 0};
  return poll(&entry, 1, 0) == 1;
}

void read_and_dispatch(WakeupHub& hub) {
  uint64_t count = 0;
  ASSERT_EQ(read(hub.descriptor(), &count, sizeof count), static_cast<ssize_t>(sizeof count));
  hub.dispatch();
}

TEST(WakeupHub, a_burst_of_signals_wakes_each_waiter_once) {
  const auto hub = *WakeupHub::create();
  int first = 0;
  int second = 0;
  const auto a = hub->add([&first] { ++first; });
  const auto b = hub->add([&second] { ++second; });
  EXPECT_FALSE(is_readable(*hub));
  for (int i = 0; i < 5; ++i) hub->signal(*a);
  ASSERT_TRUE(is_readable(*hub));
  read_and_dispatch(*hub);
  EXPECT_FALSE(is_readable(*hub));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  hub->signal(*b);
  read_and_dispatch(*hub);
  EXPECT_EQ(second, 1);
}

TEST(WakeupHub, a_waiter_that_is_gone_is_not_woken) {
  const auto hub = *WakeupHub::create();
  auto waiter = hub->add([] { FAIL() << "woken after it was dropped"; });
  hub->signal(*waiter);
  waiter.reset();
  read_and_dispatch(*hub);
}

TEST(WakeupHub, no_signal_is_lost_between_threads) {
  const auto hub = *WakeupHub::create();
  std::atomic<int> value{0};
  int seen = 0;
  const auto waiter = hub->add([&] { seen = value.load(); });
  std::thread engine([&] {
    for (int i = 1; i <= 20'000; ++i) {
      value.store(i);
      hub->signal(*waiter);
    }
  });
  while (seen != 20'000) {
    pollfd entry{hub->descriptor(), POLLIN, 0};
    ASSERT_EQ(poll(&entry, 1, 10'000), 1) << "stuck at " << seen;
    read_and_dispatch(*hub);
  }
  engine.join();
}

}  // namespace
}  // namespace yeoul
