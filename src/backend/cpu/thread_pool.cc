#include "backend/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace yeoul {
namespace {

// The caller gives its processor away when the last tasks take longer: their thread may be waiting
// for it.
constexpr std::chrono::nanoseconds kPatience = std::chrono::microseconds(20);
constexpr int kSpinsPerLook = 64;  // between two looks at the clock

constexpr int kTaskBits = 32;
constexpr int64_t kSliceMax = int64_t{1} << 30;

constexpr uint64_t limit_of(uint64_t tickets) {
  return tickets >> kTaskBits;
}
constexpr uint64_t next_of(uint64_t tickets) {
  return tickets & ((uint64_t{1} << kTaskBits) - 1);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until ready() or the time is over.
template <typename Ready>
bool spin(std::chrono::nanoseconds time, const Ready& ready) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  do {
    for (int i = 0; i < kSpinsPerLook; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

void bind(std::thread& thread, int processor) {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(static_cast<size_t>(processor), &own);
  pthread_setaffinity_np(thread.native_handle(), sizeof(own), &own);
}

}  // namespace

ThreadPool::ThreadPool(int num_threads, const ThreadPlacement& placement)
    : spin_time_(placement.spin_time) {
  for (int thread = 1; thread < std::max(num_threads, 1); ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
    pthread_setname_np(workers_.back().native_handle(), ("cpu-" + std::to_string(thread)).c_str());
    if (static_cast<size_t>(thread) < placement.processors.size()) {
      bind(workers_.back(), placement.processors[static_cast<size_t>(thread)]);
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_job(int64_t num_tasks, Job job) {
  for (; job.first < num_tasks; job.first += kSliceMax) {
    run_slice(std::min(kSliceMax, num_tasks - job.first), job);
  }
}

void ThreadPool::run_slice(int64_t num_tasks, const Job& job) {
  job_ = job;
  done_.store(0, std::memory_order_relaxed);
  // Sequentially consistent, as is sleep(): a worker either sees the job or is seen asleep.
  tickets_.store(static_cast<uint64_t>(num_tasks) << kTaskBits);
  if (sleepers_.load() != 0) {
    const std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  take_tasks(0);
  const auto all_done = [&] { return done_.load(std::memory_order_acquire) == num_tasks; };
  while (!spin(std::min(spin_time_, kPatience), all_done)) std::this_thread::yield();
}

bool ThreadPool::has_task() const {
  const uint64_t tickets = tickets_.load(std::memory_order_relaxed);
  return next_of(tickets) < limit_of(tickets);
}

void ThreadPool::take_tasks(int thread) {
  uint64_t tickets = tickets_.load(std::memory_order_acquire);
  while (next_of(tickets) < limit_of(tickets)) {
    if (!tickets_.compare_exchange_weak(tickets, tickets + 1, std::memory_order_acq_rel,
                                        std::memory_order_acquire)) {
      continue;
    }
    job_.call(job_.context, job_.first + static_cast<int64_t>(next_of(tickets)), thread);
    done_.fetch_add(1, std::memory_order_release);
    tickets = tickets_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int thread) {
  while (!stopping_.load(std::memory_order_relaxed)) {
    take_tasks(thread);
    if (!spin(spin_time_,
              [&] { return has_task() || stopping_.load(std::memory_order_relaxed); })) {
      sleep();
    }
  }
}

void ThreadPool::sleep() {
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1);
  wake_.wait(lock, [&] {
    const uint64_t tickets = tickets_.load();
    return stopping_ || next_of(tickets) < limit_of(tickets);
  });
  sleepers_.fetch_sub(1);
}

}  // namespace yeoul
