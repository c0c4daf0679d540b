#pragma once

// Fault-injection points. Production code asks fault_fires(point, key) where the outside world can
// fail; nothing fires unless a test has armed the point. The unarmed check is one relaxed load.

#include <atomic>
#include <cstdint>
#include <functional>

namespace yeoul {

enum class FaultPoint : uint8_t {
  kWeightRead,       // key: layer << 32 | expert
  kEngramRead,       // key: row of the table
  kNonFiniteRow,     // key: slot << 32 | position; the row's final hidden state becomes NaN
  kAdmissionMemory,  // key: request id; the allocation at admission fails
  kPreemption,       // key: request id; its running sequences are preempted before the step
  kReadError,        // key: byte offset of a RangeReader's read; it fails with EIO
  kReadShort,        // key: the same; half of it arrives
  kCount,
};

// Decides for one key whether the fault happens. Called from any thread.
using FaultRule = std::function<bool(uint64_t key)>;

bool fault_fires_slow(FaultPoint point, uint64_t key);
extern std::atomic<bool> fault_armed;

inline bool fault_fires(FaultPoint point, uint64_t key) {
  return fault_armed.load(std::memory_order_relaxed) && fault_fires_slow(point, key);
}

// Arms `point` for the lifetime of the object. One at a time per point. Tests only.
class ScopedFault {
 public:
  ScopedFault(FaultPoint point, FaultRule rule);
  ~ScopedFault();
  ScopedFault(const ScopedFault&) = delete;
  ScopedFault& operator=(const ScopedFault&) = delete;

 private:
  FaultPoint point_;
};

}  // namespace yeoul
