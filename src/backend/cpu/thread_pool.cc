#include "backend/cpu/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace yeoul {
namespace {

// Long enough to cover the gaps between the ops of one step, short enough not to burn an idle core.
constexpr auto kSpinTime = std::chrono::microseconds(50);

}  // namespace

ThreadPool::ThreadPool(int num_threads) {
  for (int thread = 1; thread < std::max(num_threads, 1); ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
    pthread_setname_np(workers_.back().native_handle(), ("cpu-" + std::to_string(thread)).c_str());
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

void ThreadPool::run_job(const Job& job) {
  job_ = job;
  next_task_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  take_tasks(0);
  while (busy_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

void ThreadPool::take_tasks(int thread) {
  for (;;) {
    const int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= job_.num_tasks) return;
    job_.call(job_.context, task, thread);
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    const auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    while (generation_.load(std::memory_order_acquire) == seen && !stopping_ &&
           std::chrono::steady_clock::now() < deadline) {
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stopping_ || generation_.load() != seen; });
    }
    if (stopping_) return;
    seen = generation_.load(std::memory_order_acquire);
    take_tasks(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace yeoul
