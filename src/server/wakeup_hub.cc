#include "server/wakeup_hub.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

namespace yeoul {

Result<std::shared_ptr<WakeupHub>> WakeupHub::create() {
  const int descriptor = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (descriptor < 0) {
    return fail(ErrorCode::kUnavailable, std::string("eventfd: ") + std::strerror(errno));
  }
  return std::shared_ptr<WakeupHub>(new WakeupHub(descriptor));
}

WakeupHub::~WakeupHub() {
  close(descriptor_);
}

std::shared_ptr<WakeupHub::Waiter> WakeupHub::add(std::function<void()> wake) {
  auto waiter = std::make_shared<Waiter>(std::move(wake));
  const std::lock_guard lock(mutex_);
  waiters_.push_back(waiter);
  return waiter;
}

void WakeupHub::signal(Waiter& waiter) {
  if (waiter.signalled_.exchange(true)) return;
  if (written_.exchange(true)) return;
  const uint64_t one = 1;
  // Only EAGAIN can happen (the counter is at its maximum), and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = write(descriptor_, &one, sizeof one);
}

void WakeupHub::dispatch() {
  written_.store(false);  // before the scan: a signal during it writes again
  std::vector<std::shared_ptr<Waiter>> due;
  {
    const std::lock_guard lock(mutex_);
    for (auto entry = waiters_.begin(); entry != waiters_.end();) {
      if (auto waiter = entry->lock()) {
        if (waiter->signalled_.exchange(false)) due.push_back(std::move(waiter));
        ++entry;
      } else {
        entry = waiters_.erase(entry);
      }
    }
  }
  for (const auto& waiter : due) waiter->wake_();
}

}  // namespace yeoul
