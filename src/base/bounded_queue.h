#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace yeoul {

// First in, first out, at most `capacity` entries. Internally synchronized.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // False when the queue is full; `value` is then untouched.
  bool try_push(T&& value) {
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= capacity_) return false;
    entries_.push_back(std::move(value));
    return true;
  }

  std::optional<T> try_pop() {
    const std::lock_guard lock(mutex_);
    if (entries_.empty()) return std::nullopt;
    std::optional<T> value(std::move(entries_.front()));
    entries_.pop_front();
    return value;
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<T> entries_;
};

}  // namespace yeoul
