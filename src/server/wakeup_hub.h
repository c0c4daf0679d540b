#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

#include "base/result.h"

namespace yeoul {

// Carries "there is something to read" from the engine thread to the connections without
// allocating or locking on the engine's side: it sets a flag and, once per burst, writes to an
// eventfd. A reader of that descriptor calls dispatch(). Internally synchronized.
class WakeupHub {
 public:
  static Result<std::shared_ptr<WakeupHub>> create();
  ~WakeupHub();
  WakeupHub(const WakeupHub&) = delete;
  WakeupHub& operator=(const WakeupHub&) = delete;

  class Waiter {
   public:
    explicit Waiter(std::function<void()> wake) : wake_(std::move(wake)) {}

   private:
    friend class WakeupHub;
    std::atomic<bool> signalled_{false};
    const std::function<void()> wake_;  // called by dispatch()
  };

  // The waiter is woken until the shared pointer is dropped.
  std::shared_ptr<Waiter> add(std::function<void()> wake);

  // Any thread; neither allocates nor locks.
  void signal(Waiter& waiter);

  // Wakes everyone signalled since. Called after descriptor() became readable and was read.
  void dispatch();
  int descriptor() const { return descriptor_; }

 private:
  explicit WakeupHub(int descriptor) : descriptor_(descriptor) {}

  const int descriptor_;
  std::atomic<bool> written_{false};
  std::mutex mutex_;
  std::list<std::weak_ptr<Waiter>> waiters_;
};

}  // namespace yeoul
