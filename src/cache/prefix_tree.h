#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cache/snapshot_pages.h"

namespace yeoul {

// Where a prompt leaves the tree.
struct TreeWalk {
  int32_t node = -1;       // the last whose whole edge is in the prompt; -1: not even the root
  int32_t partial = -1;    // its child whose edge begins like the prompt and then differs, or -1
  int64_t shared_len = 0;  // units up to the difference
};

// A radix tree over units with snapshots at the ends of nodes: its shape, without what a snapshot
// is. An edge is an interval of positions, read through a snapshot below it (the node's witness),
// so that neither splitting nor joining copies units. A root is a node without a parent, found by
// its key. All storage is allocated at construction. Thread-confined to the engine thread; borrows
// the pages.
class PrefixTree {
 public:
  struct Node {
    uint64_t first_unit = 0;  // of the edge; the key at a root
    int64_t begin = 0;        // positions of the edge
    int64_t end = 0;
    int32_t parent = -1;
    int32_t first_child = -1;
    int32_t next = -1;  // among the children of the parent
    int32_t prev = -1;
    int32_t num_children = 0;
    int32_t snapshot = -1;  // of the units up to `end`
    int32_t witness = -1;   // a snapshot at this node or below
    bool is_used = false;
  };

  PrefixTree(const SnapshotPages& pages, int32_t snapshots_max);

  TreeWalk walk(uint64_t root, const PrefixUnits& units) const;

  // Puts `snapshot`, whose pages are assigned, at the end of `units`, where `walk` ended. The node
  // must not have one.
  int32_t attach(uint64_t root, const PrefixUnits& units, const TreeWalk& walk, int32_t snapshot);

  // Takes the snapshot of a node away and the nodes that have no reason to be without it.
  void detach(int32_t id);

  const Node& node(int32_t id) const { return nodes_[static_cast<size_t>(id)]; }
  std::span<const Node> nodes() const { return nodes_; }
  int64_t num_nodes() const { return std::ssize(nodes_) - std::ssize(free_nodes_); }

  // kInternal, naming the node, when the tree is not minimal, a link is one-sided or a witness is
  // not below its node.
  Result<void> check() const;

 private:
  Node& at(int32_t id) { return nodes_[static_cast<size_t>(id)]; }
  int32_t add_node(int32_t parent, uint64_t first_unit, int64_t begin, int64_t end,
                   int32_t witness);
  int32_t split(int32_t child, int64_t position);
  void join(int32_t id);
  void link(int32_t parent, int32_t child);
  void unlink(int32_t child);
  int32_t prune(int32_t id);
  void replace_witness(int32_t id, int32_t gone);
  Result<void> check_node(int32_t id) const;

  // Children by (parent, first unit): open addressing, linear probing.
  size_t bucket(int32_t parent, uint64_t first_unit) const;
  int32_t find(int32_t parent, uint64_t first_unit) const;
  void add_to_table(int32_t id);
  void remove_from_table(int32_t id);

  const SnapshotPages& pages_;
  std::vector<Node> nodes_;
  std::vector<int32_t> free_nodes_;
  std::vector<int32_t> table_;  // node or -1; a power of two, at most half full
};

}  // namespace yeoul
