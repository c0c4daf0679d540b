#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"
#include "io/read_queue.h"

namespace yeoul {
namespace {

// First in, first out, of fixed capacity.
template <typename T>
class Ring {
 public:
  explicit Ring(size_t capacity) : items_(capacity) {}
  bool empty() const { return count_ == 0; }
  void push(const T& item) {
    CHECK(count_ < items_.size(), "more reads than the queue is deep");
    items_[(first_ + count_++) % items_.size()] = item;
  }
  T pop() {
    const T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0;
  size_t count_ = 0;
};

class ThreadQueue final : public ReadQueue {
 public:
  explicit ThreadQueue(const ReadQueueSetup& setup)
      : descriptors_(setup.descriptors),
        waiting_(static_cast<size_t>(setup.depth)),
        done_(static_cast<size_t>(setup.depth)) {
    CHECK(setup.num_threads >= 1, "{} threads", setup.num_threads);
    for (int32_t i = 0; i < setup.num_threads; ++i) {
      threads_.emplace_back([this] { work(); });
      pthread_setname_np(threads_.back().native_handle(), "yeoul-pread");
    }
  }

  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    read_waits_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  const char* name() const override { return "threads"; }

  void submit(std::span<const QueuedRead> reads) override {
    {
      const std::lock_guard lock(mutex_);
      for (const QueuedRead& read : reads) waiting_.push(read);
    }
    if (reads.size() == 1) {
      read_waits_.notify_one();
    } else {
      read_waits_.notify_all();
    }
  }

  size_t reap(std::span<QueuedResult> into, bool wait) override {
    std::unique_lock lock(mutex_);
    if (wait) result_waits_.wait(lock, [this] { return !done_.empty(); });
    size_t count = 0;
    while (count < into.size() && !done_.empty()) into[count++] = done_.pop();
    return count;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      read_waits_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const QueuedRead read = waiting_.pop();
      lock.unlock();
      const int descriptor = descriptors_[static_cast<size_t>(read.file)];
      ssize_t num_read = 0;
      do {
        num_read = ::pread(descriptor, read.into, read.num_bytes, static_cast<off_t>(read.offset));
      } while (num_read < 0 && errno == EINTR);
      const auto result = static_cast<int32_t>(num_read < 0 ? -errno : num_read);
      lock.lock();
      done_.push({read.id, result});
      result_waits_.notify_one();
    }
  }

  std::span<const int> descriptors_;
  std::mutex mutex_;
  std::condition_variable read_waits_;
  std::condition_variable result_waits_;
  Ring<QueuedRead> waiting_;  // guarded by mutex_
  Ring<QueuedResult> done_;   // guarded by mutex_
  bool is_stopping_ = false;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<ReadQueue> make_thread_queue(const ReadQueueSetup& setup) {
  return std::make_unique<ThreadQueue>(setup);
}

}  // namespace yeoul
