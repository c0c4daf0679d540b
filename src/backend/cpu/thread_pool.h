#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "backend/cpu/thread_placement.h"

namespace yeoul {

// Fork/join for one caller: run() cuts a job into tasks, the caller and the workers take them one
// by one, run() returns when all are done. A worker that is late (asleep, or off its processor) is
// not waited for: only tasks are. Workers spin for the next job for a moment, then sleep, so an
// idle or throttled process burns no time. run() may be called by one thread at a time and does not
// allocate; results must not depend on who runs a task.
class ThreadPool {
 public:
  // The caller counts as one; at least 1. A placement with processors binds each worker to one;
  // the caller, who does other things too, is left free and its processor left to it.
  explicit ThreadPool(int num_threads, const ThreadPlacement& placement = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, thread) for task = 0 .. num_tasks-1, thread in [0, num_threads()).
  template <typename Body>
  void run(int64_t num_tasks, const Body& body) {
    if (num_tasks <= 0) return;
    if (workers_.empty() || num_tasks == 1) {
      for (int64_t task = 0; task < num_tasks; ++task) body(task, 0);
      return;
    }
    run_job(num_tasks, {[](const void* context, int64_t task, int thread) {
                          (*static_cast<const Body*>(context))(task, thread);
                        },
                        &body});
  }

 private:
  struct Job {
    void (*call)(const void* context, int64_t task, int thread) = nullptr;
    const void* context = nullptr;
    int64_t first = 0;  // added to the task numbers
  };
  void run_job(int64_t num_tasks, Job job);
  void run_slice(int64_t num_tasks, const Job& job);
  void work(int thread);
  void take_tasks(int thread);
  bool has_task() const;
  void sleep();

  const std::chrono::nanoseconds spin_time_;
  std::vector<std::thread> workers_;
  // Number of tasks and the next one not yet taken, of the current job, in one word: who advances
  // it owns that task, and job_ cannot change before the task is counted in done_.
  alignas(64) std::atomic<uint64_t> tickets_{0};
  alignas(64) std::atomic<int64_t> done_{0};
  alignas(64) Job job_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

}  // namespace yeoul
