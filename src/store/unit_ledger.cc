#include "store/unit_ledger.h"

#include <algorithm>
#include <utility>

namespace yeoul {

bool UnitLedger::add(UnitEntry entry) {
  if (by_key_.contains(entry.key)) return false;
  last_use_ = std::max(last_use_, entry.last_use);
  num_bytes_ += entry.bytes;
  units_.push_front(std::move(entry));
  by_key_.emplace(units_.front().key, units_.begin());
  return true;
}

bool UnitLedger::remove(const BlobKey& key) {
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return false;
  num_bytes_ -= at->second->bytes;
  units_.erase(at->second);
  by_key_.erase(at);
  return true;
}

bool UnitLedger::touch(const BlobKey& key) {
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return false;
  at->second->last_use = ++last_use_;
  units_.splice(units_.begin(), units_, at->second);
  return true;
}

const UnitEntry* UnitLedger::find(const BlobKey& key) const {
  const auto at = by_key_.find(key);
  return at == by_key_.end() ? nullptr : &*at->second;
}

std::vector<UnitEntry> UnitLedger::take_unrecorded() {
  std::vector<UnitEntry> taken;
  for (UnitEntry& unit : units_) {
    if (unit.last_use <= recorded_through_) break;
    if (unit.recorded_use == unit.last_use) continue;
    unit.recorded_use = unit.last_use;
    taken.push_back(unit);
  }
  recorded_through_ = last_use_;
  return taken;
}

void UnitLedger::sort_by_use() {
  recorded_through_ = last_use_;
  units_.sort([](const UnitEntry& a, const UnitEntry& b) { return a.last_use > b.last_use; });
}

}  // namespace yeoul
