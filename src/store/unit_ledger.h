#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "store/blob_key.h"

namespace yeoul {

// What the store knows of a unit without reading it.
struct UnitEntry {
  BlobKey key;
  int64_t bytes = 0;          // on disk, the bookkeeping included
  uint64_t last_use = 0;      // on a counter of uses that only grows
  uint64_t recorded_use = 0;  // what the unit's record on disk says
  std::vector<uint8_t> note;
};

// The units of a store, from the most to the least recently used. Plain data: thread-confined to
// whoever holds it.
class UnitLedger {
 public:
  // The number of a new use.
  uint64_t take_use() { return ++last_use_; }
  // As the most recently used, whatever its last_use. False when its key is there already.
  bool add(UnitEntry entry);
  bool remove(const BlobKey& key);
  // Makes a unit the most recently used. Does not allocate.
  bool touch(const BlobKey& key);

  const UnitEntry* find(const BlobKey& key) const;
  // The least recently used; null when there is none.
  const UnitEntry* victim() const { return units_.empty() ? nullptr : &units_.back(); }
  // Units whose record says another last use than theirs, most recent first; they count as recorded
  // from now on. Looks only at those used since the last call.
  std::vector<UnitEntry> take_unrecorded();

  int64_t num_units() const { return static_cast<int64_t>(by_key_.size()); }
  int64_t num_bytes() const { return num_bytes_; }
  // Body(const UnitEntry&), most recently used first.
  template <typename Body>
  void for_each(const Body& body) const {
    for (const UnitEntry& unit : units_) body(unit);
  }
  // Puts entries that came with their last_use into its order. Once, after loading.
  void sort_by_use();

 private:
  std::list<UnitEntry> units_;
  std::unordered_map<BlobKey, std::list<UnitEntry>::iterator, BlobKeyHash> by_key_;
  int64_t num_bytes_ = 0;
  uint64_t last_use_ = 0;
  uint64_t recorded_through_ = 0;  // no unit last used up to here is unrecorded
};

}  // namespace yeoul
