#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace yeoul {

// Fork/join for one caller: run() cuts a job into tasks, the workers and the caller take them one
// by one, run() returns when all are done. Workers spin briefly for the next job, then sleep. run()
// may be called by one thread at a time and does not allocate.
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);  // the caller counts as one; at least 1
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
    run_job(Job{[](const void* context, int64_t task, int thread) {
                  (*static_cast<const Body*>(context))(task, thread);
                },
                &body, num_tasks});
  }

 private:
  struct Job {
    void (*call)(const void* context, int64_t task, int thread) = nullptr;
    const void* context = nullptr;
    int64_t num_tasks = 0;
  };
  void run_job(const Job& job);
  void work(int thread);
  void take_tasks(int thread);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> generation_{0};  // of the current job
  std::atomic<int64_t> next_task_{0};
  std::atomic<int> busy_{0};  // workers that have not finished the current job
  std::atomic<bool> stopping_{false};
  Job job_;
};

}  // namespace yeoul
