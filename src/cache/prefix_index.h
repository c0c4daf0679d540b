#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/eviction_order.h"
#include "cache/page_table.h"
#include "cache/prefix_tree.h"
#include "cache/prefix_units.h"
#include "cache/resume_rule.h"
#include "cache/snapshot_pages.h"

namespace yeoul {

class PrefixIndex;

// Why a prompt resumes earlier than what it shares with known prompts.
enum class ResumeLimit : uint8_t {
  kNone,           // it resumes where the shared part ends
  kNothingShared,  // not even the first token is known
  kNoSnapshot,     // the shared part ends between two snapshots
  kRowsMissing,    // a longer snapshot lacks window rows that so short a rest would read
};

// What a lookup found, as numbers.
struct PrefixMatch {
  int64_t shared_len = 0;     // known tokens at the front, at most the prompt's length - 1
  int64_t candidate_len = 0;  // longest snapshot within them
  int64_t resume_len = 0;     // longest one that this prompt may resume from
  ResumeLimit limit = ResumeLimit::kNone;
  friend bool operator==(const PrefixMatch&, const PrefixMatch&) = default;
};

// Keeps one snapshot, its pages included, from being evicted or replaced while it is used. The
// index must outlive it.
class PrefixHold {
 public:
  PrefixHold() = default;
  PrefixHold(PrefixIndex& index, int32_t snapshot);
  PrefixHold(PrefixHold&& other) noexcept;
  PrefixHold& operator=(PrefixHold&& other) noexcept;
  ~PrefixHold() { release(); }

  explicit operator bool() const { return snapshot_ >= 0; }
  int32_t snapshot() const { return snapshot_; }
  void release();

 private:
  PrefixIndex* index_ = nullptr;
  int32_t snapshot_ = -1;
};

struct PrefixLookup {
  PrefixMatch match;
  PrefixHold hold;  // empty when the prompt starts from nothing
};

struct PrefixIndexLimits {
  ResumeShape shape;
  int32_t tokens_per_page = 0;
  int32_t snapshots_max = 0;  // 0: the index keeps nothing
  int64_t length_max = 0;     // units of one snapshot
};

// What an index allocates for each page of the pool and each snapshot.
struct PrefixIndexBytes {
  int64_t a_page = 0;
  int64_t a_snapshot = 0;
};

struct PrefixIndexStats {
  int64_t kept = 0;      // snapshots kept, since creation
  int64_t not_kept = 0;  // dropped at once: one that serves as much is there
  int64_t replaced = 0;  // dropped for one that serves more
  int64_t evicted = 0;
};

// Prefixes with a saved state, found by the longest that a prompt may resume from: a radix tree for
// each root key, which stands for everything two prompts must agree on besides their units (model,
// numerics, tenant). Each snapshot owns references to its pages, so that no page is free while a
// node leads to it. A snapshot's number is its place in the executor's state storage: reserved
// before the state is saved there, and reserved anew only after the snapshot is gone.
// Allocates at construction only. Thread-confined to the engine thread; borrows the pool.
class PrefixIndex {
 public:
  PrefixIndex(PagePool& pool, const PrefixIndexLimits& limits);
  static PrefixIndexBytes num_bytes(const PrefixIndexLimits& limits);
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The caller shares the first resume_len / tokens_per_page pages and copies the next one if
  // resume_len ends inside it: its rows behind resume_len are another sequence's. Counts as a use.
  PrefixLookup lookup(uint64_t root, const PrefixUnits& units);
  PrefixMatch look(uint64_t root, const PrefixUnits& units) const;  // the same without a use

  // A number to save a state under; evicts when none is free. nullopt when every snapshot is held.
  // The caller passes it to insert() or give_back().
  std::optional<int32_t> reserve_number();
  void give_back(int32_t number);

  // Keeps the state after all of `units` that was saved under `number`: shares the pages that hold
  // them. Where one is already, the new one takes its place only if it is valid wherever the old
  // one is; else the number is free again. Whether it was kept.
  bool insert(int32_t number, uint64_t root, const PrefixUnits& units, const PageTable& pages,
              std::span<const int64_t> first_valid);

  // Drops the snapshot whose loss costs least. false when none is left that is not held.
  bool evict();

  int32_t num_snapshots() const { return num_snapshots_; }
  int64_t num_nodes() const { return tree_.num_nodes(); }
  bool is_kept(int32_t snapshot) const { return entry(snapshot).node >= 0; }
  bool is_held(int32_t snapshot) const { return entry(snapshot).num_holds > 0; }
  int64_t length(int32_t snapshot) const { return entry(snapshot).length; }
  const PageTable& pages(int32_t snapshot) const { return pages_.table(snapshot); }
  uint64_t unit(int32_t snapshot, int64_t position) const {
    return pages_.unit(snapshot, position);
  }
  std::span<const int64_t> first_valid(int32_t snapshot) const;
  const PrefixTree& tree() const { return tree_; }
  const PrefixIndexLimits& limits() const { return limits_; }
  const PrefixIndexStats& stats() const { return stats_; }

  // kInternal when the tree or the books of the snapshots do not fit together.
  Result<void> check() const;

 private:
  friend class PrefixHold;
  struct Snapshot {
    int64_t length = 0;
    int32_t node = -1;  // -1: not kept
    int32_t num_holds = 0;
  };

  const Snapshot& entry(int32_t snapshot) const;
  Snapshot& at(int32_t snapshot) { return snapshots_[static_cast<size_t>(snapshot)]; }
  std::pair<PrefixMatch, int32_t> find(uint64_t root, const PrefixUnits& units) const;
  void hold(int32_t snapshot);
  void release(int32_t snapshot);
  int32_t snapshot_above(int32_t node) const;
  void rank(int32_t snapshot);
  void drop(int32_t snapshot);

  const PrefixIndexLimits limits_;
  SnapshotPages pages_;
  PrefixTree tree_;
  EvictionOrder order_;  // snapshots that nobody holds
  std::vector<Snapshot> snapshots_;
  std::vector<int64_t> first_valid_;  // [snapshot][layer]
  std::vector<int32_t> free_numbers_;
  int32_t num_snapshots_ = 0;
  double age_ = 0;
  PrefixIndexStats stats_;
};

}  // namespace yeoul
