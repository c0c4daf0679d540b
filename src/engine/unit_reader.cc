#include "engine/unit_reader.h"

#include <utility>

#include "base/check.h"

namespace yeoul {

UnitReader::UnitReader(BlobStore& store, int64_t unit_bytes_max, size_t keys_max,
                       std::function<void()> notify)
    : store_(store), notify_(std::move(notify)), units_(kAhead) {
  keys_.reserve(keys_max);
  for (Unit& unit : units_) unit.bytes.reserve(static_cast<size_t>(unit_bytes_max));
  thread_ = std::thread([this] { run(); });
}

UnitReader::~UnitReader() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

int64_t UnitReader::memory_bytes(int64_t unit_bytes_max) {
  return static_cast<int64_t>(kAhead + 1) * unit_bytes_max;
}

void UnitReader::start(std::span<const BlobKey> keys) {
  const std::lock_guard lock(mutex_);
  CHECK(keys.size() <= keys_.capacity(), "{} units to read, at most {}", keys.size(),
        keys_.capacity());
  keys_.assign(keys.begin(), keys.end());
  num_read_ = num_taken_ = 0;
  ++list_;
  wake_.notify_one();
}

const UnitReader::Unit* UnitReader::front() const {
  const std::lock_guard lock(mutex_);
  return num_taken_ < num_read_ ? &units_[num_taken_ % kAhead] : nullptr;
}

void UnitReader::pop() {
  const std::lock_guard lock(mutex_);
  CHECK(num_taken_ < num_read_);
  ++num_taken_;
  wake_.notify_one();
}

void UnitReader::run() {
  Unit reading;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] {
      return stop_ || (num_read_ < keys_.size() && num_read_ < num_taken_ + kAhead);
    });
    if (stop_) return;
    const BlobKey key = keys_[num_read_];
    const uint64_t list = list_;
    lock.unlock();
    reading.status = store_.get(key, reading.bytes);
    lock.lock();
    if (list != list_) continue;  // nobody waits for it any more
    std::swap(units_[num_read_ % kAhead], reading);
    ++num_read_;
    notify_();
  }
}

}  // namespace yeoul
