#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "io/file.h"

namespace yeoul {
namespace {

// Below this many requests waking a thread costs more than reading from the page cache.
constexpr size_t kInlineRequestsMax = 2;

void drain(std::span<ReadRequest> requests, std::atomic<size_t>& next) {
  for (size_t i = next.fetch_add(1); i < requests.size(); i = next.fetch_add(1)) {
    ReadRequest& request = requests[i];
    request.ok = request.file->read_at(request.offset, request.into).has_value();
  }
}

}  // namespace

// The caller works on its batch too; workers join a batch while it lasts. A worker registers under
// the mutex before it touches the requests, and read() leaves only when none is registered.
class BatchReader::Pool {
 public:
  explicit Pool(int num_threads) {
    CHECK(num_threads >= 1, "{} threads", num_threads);
    for (int i = 1; i < num_threads; ++i) {
      workers_.emplace_back([this] { work(); });
      pthread_setname_np(workers_.back().native_handle(), "yeoul-read");
    }
  }

  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    batch_ready_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  void read(std::span<ReadRequest> requests) {
    if (requests.size() <= kInlineRequestsMax || workers_.empty()) {
      std::atomic<size_t> next = 0;
      drain(requests, next);
      return;
    }
    {
      const std::lock_guard lock(mutex_);
      requests_ = requests;
      next_.store(0);
      ++num_batches_;
    }
    batch_ready_.notify_all();
    drain(requests, next_);
    std::unique_lock lock(mutex_);
    requests_ = {};  // a worker that wakes only now finds nothing to join
    workers_left_.wait(lock, [this] { return num_working_ == 0; });
  }

 private:
  void work() {
    uint64_t last_batch = 0;
    std::unique_lock lock(mutex_);
    while (true) {
      batch_ready_.wait(lock, [&] { return is_stopping_ || num_batches_ != last_batch; });
      if (is_stopping_) return;
      last_batch = num_batches_;
      const std::span<ReadRequest> requests = requests_;
      if (requests.empty()) continue;
      ++num_working_;
      lock.unlock();
      drain(requests, next_);
      lock.lock();
      if (--num_working_ == 0) workers_left_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable batch_ready_;
  std::condition_variable workers_left_;
  std::span<ReadRequest> requests_;  // guarded by mutex_
  uint64_t num_batches_ = 0;         // guarded by mutex_
  int num_working_ = 0;              // guarded by mutex_
  bool is_stopping_ = false;         // guarded by mutex_
  std::atomic<size_t> next_ = 0;     // first request nobody has taken
  std::vector<std::thread> workers_;
};

BatchReader::BatchReader(int num_threads) : pool_(new Pool(num_threads)) {}

BatchReader::~BatchReader() {
  delete pool_;
}

void BatchReader::read(std::span<ReadRequest> requests) {
  pool_->read(requests);
}

}  // namespace yeoul
