#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <vector>

namespace yeoul {
namespace {

TEST(ThreadPool, runs_every_task_once_in_thousands_of_jobs) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    std::vector<int> runs(257);  // plain integers: two threads on one task are a race
    int64_t expected = 0;
    for (int job = 0; job < 3000; ++job) {
      const int64_t tasks = job * 7 % 258;
      pool.run(tasks, [&](int64_t task, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, threads);
        ++runs[static_cast<size_t>(task)];
      });
      expected += tasks;
    }
    int64_t total = 0;
    for (const int count : runs) total += count;
    EXPECT_EQ(total, expected);
  }
}

TEST(ThreadPool, a_job_sees_all_that_the_job_before_it_wrote) {
  ThreadPool pool(3);
  std::vector<int64_t> values(64, 1);
  for (int job = 0; job < 2000; ++job) {
    const std::vector<int64_t> before = values;
    pool.run(64, [&](int64_t task, int) {
      const auto at = static_cast<size_t>(task);
      values[at] = before[(at + 1) % 64] + 1;
    });
  }
  for (const int64_t value : values) EXPECT_EQ(value, 2001);
}

TEST(ThreadPool, buffers_by_thread_number_are_never_shared) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> users(4);
  std::atomic<int> clashes{0};
  for (int job = 0; job < 300; ++job) {
    pool.run(50, [&](int64_t, int thread) {
      if (users[static_cast<size_t>(thread)].fetch_add(1) != 0) ++clashes;
      users[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
  EXPECT_EQ(clashes, 0);
}

TEST(ThreadPool, wakes_workers_that_have_gone_to_sleep) {
  ThreadPool pool(3);
  for (int job = 0; job < 20; ++job) {
    std::atomic<int> done{0};
    pool.run(3, [&](int64_t, int) { ++done; });
    EXPECT_EQ(done, 3);
    // Longer than the workers' spin: not a wait for anything, only a pause.
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(300);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
}

TEST(ThreadPool, does_not_wait_for_a_worker_that_has_not_begun) {
  // More threads than any machine here has processors: most are asleep or off their processor.
  ThreadPool pool(40);
  std::atomic<int64_t> sum{0};
  for (int job = 0; job < 500; ++job) {
    pool.run(3, [&](int64_t task, int) { sum += task; });
  }
  EXPECT_EQ(sum, 500 * 3);
}

TEST(ThreadPool, pinned_workers_and_workers_that_hardly_spin_do_the_same) {
  const std::vector<Processor> processors = usable_processors();
  for (const int threads : {2, 64}) {
    for (const int quota : {0, 1}) {
      ThreadPool pool(threads, place_threads(processors, threads, quota, Pin::kOn));
      std::vector<int> runs(100);
      for (int job = 0; job < 50; ++job) {
        pool.run(100, [&](int64_t task, int) { ++runs[static_cast<size_t>(task)]; });
      }
      for (const int count : runs) EXPECT_EQ(count, 50);
    }
  }
}

TEST(ThreadPool, a_pinned_worker_runs_on_its_processor_and_nowhere_else) {
  const std::vector<Processor> processors = usable_processors();
  const ThreadPlacement placement = place_threads(processors, 2, 0, Pin::kOn);
  if (placement.processors.empty()) GTEST_SKIP() << "one processor";
  ThreadPool pool(2, placement);
  std::atomic<int> elsewhere{0}, by_worker{0};
  std::atomic<int> arrived{0};
  // Each task waits for the other, so the worker must take one.
  pool.run(2, [&](int64_t, int thread) {
    ++arrived;
    while (arrived.load() < 2) {
    }
    if (thread == 0) return;
    ++by_worker;
    cpu_set_t own;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof(own), &own);
    elsewhere += CPU_COUNT(&own) != 1 || !CPU_ISSET(placement.processors[1], &own);
  });
  EXPECT_EQ(by_worker, 1);
  EXPECT_EQ(elsewhere, 0);
}

TEST(ThreadPool, starts_and_stops_without_work) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
  ThreadPool pool(0);
  EXPECT_EQ(pool.num_threads(), 1);
  pool.run(0, [](int64_t, int) { FAIL(); });
}

}  // namespace
}  // namespace yeoul
