#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/cache_report.h"

namespace yeoul {

// Hands a report from the engine thread to one that asks: whoever asks provides the storage, the
// engine thread fills it between two steps. Internally synchronized.
class CacheReporter {
 public:
  struct Storage {
    CacheReport report;               // vectors reserved
    std::vector<uint8_t> is_counted;  // [pages], zeros
  };

  // Any thread but the engine's; one at a time, others wait. nullopt when the engine thread did
  // not come by within `patience`.
  template <typename Wake>
  std::optional<CacheReport> ask(Storage storage, Duration patience, Wake wake) {
    const std::lock_guard one_at_a_time(askers_);
    std::unique_lock lock(mutex_);
    asked_ = &storage;
    wake();
    const bool answered = answered_.wait_for(lock, patience, [this] { return asked_ == nullptr; });
    asked_ = nullptr;
    if (!answered) return std::nullopt;
    return std::move(storage.report);
  }

  // Engine thread, between two steps.
  template <typename Fill>
  void answer(Fill fill) {
    const std::lock_guard lock(mutex_);
    if (asked_ == nullptr) return;
    fill(*asked_);
    asked_ = nullptr;
    answered_.notify_one();
  }

 private:
  std::mutex askers_;
  std::mutex mutex_;
  std::condition_variable answered_;
  Storage* asked_ = nullptr;  // guarded by mutex_
};

}  // namespace yeoul
