#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace yeoul {

// Memory that the request bodies of all connections may take together. Internally synchronized.
class BodyBudget {
 public:
  explicit BodyBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

 private:
  friend class BodyShare;
  const size_t bytes_max_;
  std::atomic<size_t> bytes_{0};
};

// The part of the budget that one request holds; given back on destruction. Thread-confined.
class BodyShare {
 public:
  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { release(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  // False when all bodies together would be too large.
  bool grow_to(size_t bytes) {
    if (bytes <= bytes_) return true;
    const size_t more = bytes - std::exchange(bytes_, bytes);
    return budget_.bytes_.fetch_add(more) + more <= budget_.bytes_max_;
  }

  void release() { budget_.bytes_ -= std::exchange(bytes_, 0); }

 private:
  BodyBudget& budget_;
  size_t bytes_ = 0;
};

}  // namespace yeoul
