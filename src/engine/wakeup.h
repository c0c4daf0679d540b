#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace yeoul {

// What an idle engine thread sleeps on. A notify() before the wait is not lost. Internally
// synchronized; shared with every event stream, so that a reader may outlive the engine.
class Wakeup {
 public:
  void notify() {
    {
      const std::lock_guard lock(mutex_);
      notified_ = true;
    }
    changed_.notify_one();
  }

  // Returns after a notification since the last wait, or after `timeout`.
  void wait_for(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return notified_; });
    notified_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

}  // namespace yeoul
