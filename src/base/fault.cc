#include "base/fault.h"

#include <array>
#include <mutex>
#include <utility>

#include "base/check.h"

namespace yeoul {

std::atomic<bool> fault_armed{false};

namespace {

struct Rules {
  std::mutex mutex;
  std::array<FaultRule, static_cast<size_t>(FaultPoint::kCount)> rule;
};

Rules& rules() {
  static Rules instance;
  return instance;
}

}  // namespace

bool fault_fires_slow(FaultPoint point, uint64_t key) {
  const std::lock_guard lock(rules().mutex);
  const FaultRule& rule = rules().rule[static_cast<size_t>(point)];
  return rule && rule(key);
}

ScopedFault::ScopedFault(FaultPoint point, FaultRule rule) : point_(point) {
  const std::lock_guard lock(rules().mutex);
  FaultRule& entry = rules().rule[static_cast<size_t>(point)];
  CHECK(!entry, "fault point {} is armed already", static_cast<int>(point));
  entry = std::move(rule);
  fault_armed.store(true);
}

ScopedFault::~ScopedFault() {
  const std::lock_guard lock(rules().mutex);
  rules().rule[static_cast<size_t>(point_)] = nullptr;
  bool any = false;
  for (const FaultRule& rule : rules().rule) any = any || rule;
  fault_armed.store(any);
}

}  // namespace yeoul
