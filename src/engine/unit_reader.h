#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/blob_store.h"

namespace yeoul {

// Reads units of a store in a given order on a thread of its own, a few ahead of who takes them,
// who never waits. The other side is thread-confined to the engine thread.
class UnitReader {
 public:
  struct Unit {
    Result<void> status;
    std::vector<uint8_t> bytes;
  };
  // notify: called from the reading thread when a unit is there. `keys_max` of one list.
  UnitReader(BlobStore& store, int64_t unit_bytes_max, size_t keys_max,
             std::function<void()> notify);
  ~UnitReader();
  UnitReader(const UnitReader&) = delete;
  UnitReader& operator=(const UnitReader&) = delete;
  static int64_t memory_bytes(int64_t unit_bytes_max);

  // Begins with this list; what was left of the last one is forgotten.
  void start(std::span<const BlobKey> keys);
  void stop() { start({}); }
  // The next unit in order, or null while it is not there. pop() frees its place.
  const Unit* front() const;
  void pop();

 private:
  static constexpr size_t kAhead = 4;
  void run();

  BlobStore& store_;
  const std::function<void()> notify_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<BlobKey> keys_;
  size_t num_read_ = 0;   // of keys_
  size_t num_taken_ = 0;  // of keys_, at most num_read_
  uint64_t list_ = 0;     // counts calls of start()
  bool stop_ = false;
  std::vector<Unit> units_;  // that of key i at i mod kAhead
  std::thread thread_;       // last: it uses everything above
};

}  // namespace yeoul
