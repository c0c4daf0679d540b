#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/page_table.h"
#include "cache/prefix_units.h"

namespace yeoul {

// The pages of every snapshot, by its number, and which unit each place of a page stands for. The
// units live with the pages and not with the tree, so that the room they take is that of the pool
// whatever shape the tree has: a page is written in order and never changes where a snapshot reads
// it, hence one unit a place. All storage is allocated at construction.
// Thread-confined to the engine thread; borrows the pool.
class SnapshotPages {
 public:
  // pages_max: of one snapshot.
  SnapshotPages(PagePool& pool, int32_t tokens_per_page, int32_t snapshots_max, int64_t pages_max);

  // Shares the pages that hold `units`. The first `known` units are those of `like` (another
  // snapshot, or -1), so that pages both have need not be written again.
  void assign(int32_t snapshot, const PageTable& pages, const PrefixUnits& units, int32_t like,
              int64_t known);
  void clear(int32_t snapshot) { at(snapshot).clear(); }

  const PageTable& table(int32_t snapshot) const { return tables_[static_cast<size_t>(snapshot)]; }
  uint64_t unit(int32_t snapshot, int64_t position) const;

  // How many units from `begin` on, at most to `end`, are the same in both.
  int64_t common(int32_t snapshot, const PrefixUnits& units, int64_t begin, int64_t end) const;

 private:
  PageTable& at(int32_t snapshot) { return tables_[static_cast<size_t>(snapshot)]; }

  const int64_t tokens_per_page_;
  std::vector<PageTable> tables_;
  std::vector<uint64_t> units_;  // [page][place]
};

}  // namespace yeoul
