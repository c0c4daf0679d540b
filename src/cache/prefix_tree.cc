#include "cache/prefix_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/counter_rng.h"

namespace yeoul {

PrefixTree::PrefixTree(const SnapshotPages& pages, int32_t snapshots_max) : pages_(pages) {
  // Every node holds a snapshot or branches, but for the roots; two more are there while one is
  // attached.
  const size_t nodes_max = 3 * static_cast<size_t>(snapshots_max) + 2;
  nodes_.resize(nodes_max);
  free_nodes_.reserve(nodes_max);
  for (size_t id = nodes_max; id-- > 0;) free_nodes_.push_back(static_cast<int32_t>(id));
  table_.assign(std::bit_ceil(2 * nodes_max), -1);
}

TreeWalk PrefixTree::walk(uint64_t root, const PrefixUnits& units) const {
  TreeWalk walk;
  int32_t next = find(-1, root);
  while (next >= 0) {
    const Node& below = node(next);
    const int64_t end = std::min(below.end, units.size());
    const int64_t common = pages_.common(below.witness, units, below.begin, end);
    walk.shared_len += common;
    if (below.begin + common < below.end) {
      walk.partial = next;
      return walk;
    }
    walk.node = next;
    if (walk.shared_len == units.size()) return walk;
    next = find(next, units[walk.shared_len]);
  }
  return walk;
}

int32_t PrefixTree::attach(uint64_t root, const PrefixUnits& units, const TreeWalk& walk,
                           int32_t snapshot) {
  int32_t id = walk.node;
  if (id < 0) id = add_node(-1, root, 0, 0, snapshot);
  if (walk.partial >= 0) id = split(walk.partial, walk.shared_len);
  const int64_t end = node(id).end;
  if (end < units.size()) id = add_node(id, units[end], end, units.size(), snapshot);
  CHECK(node(id).snapshot < 0, "node {} has snapshot {}", id, node(id).snapshot);
  at(id).snapshot = snapshot;
  return id;
}

void PrefixTree::detach(int32_t id) {
  const int32_t gone = node(id).snapshot;
  at(id).snapshot = -1;
  replace_witness(prune(id), gone);
}

// Gives nodes from here upwards that read their edge through the snapshot that goes another one.
void PrefixTree::replace_witness(int32_t id, int32_t gone) {
  for (; id >= 0; id = node(id).parent) {
    Node& above = at(id);
    if (above.witness != gone) continue;
    above.witness = above.snapshot >= 0 ? above.snapshot : node(above.first_child).witness;
  }
}

int32_t PrefixTree::add_node(int32_t parent, uint64_t first_unit, int64_t begin, int64_t end,
                             int32_t witness) {
  CHECK(!free_nodes_.empty(), "{} nodes are in use", nodes_.size());
  const int32_t id = free_nodes_.back();
  free_nodes_.pop_back();
  at(id) = {
      .first_unit = first_unit, .begin = begin, .end = end, .witness = witness, .is_used = true};
  link(parent, id);
  return id;
}

// Puts a node that ends at `position` into the child's edge, and returns it.
int32_t PrefixTree::split(int32_t child, int64_t position) {
  const Node below = node(child);
  unlink(child);
  const int32_t upper =
      add_node(below.parent, below.first_unit, below.begin, position, below.witness);
  at(child).begin = position;
  at(child).first_unit = pages_.unit(below.witness, position);
  link(upper, child);
  return upper;
}

// Takes away a node with one child, which takes its place.
void PrefixTree::join(int32_t id) {
  const Node gone = node(id);
  const int32_t child = gone.first_child;
  unlink(child);
  unlink(id);
  at(child).begin = gone.begin;
  at(child).first_unit = gone.first_unit;
  link(gone.parent, child);
}

void PrefixTree::link(int32_t parent, int32_t child) {
  Node& below = at(child);
  below.parent = parent;
  below.prev = -1;
  below.next = -1;
  if (parent >= 0) {
    Node& above = at(parent);
    below.next = above.first_child;
    if (below.next >= 0) at(below.next).prev = child;
    above.first_child = child;
    ++above.num_children;
  }
  add_to_table(child);
}

void PrefixTree::unlink(int32_t child) {
  remove_from_table(child);
  const Node below = node(child);
  if (below.next >= 0) at(below.next).prev = below.prev;
  if (below.prev >= 0) at(below.prev).next = below.next;
  if (below.parent < 0) return;
  Node& above = at(below.parent);
  if (above.first_child == child) above.first_child = below.next;
  --above.num_children;
}

// Takes nodes away from here upwards that neither hold a snapshot nor branch. Returns the lowest
// that stays on the way to the root, or -1.
int32_t PrefixTree::prune(int32_t id) {
  while (id >= 0 && node(id).snapshot < 0 && node(id).num_children < 2) {
    const int32_t parent = node(id).parent;
    const bool has_child = node(id).num_children == 1;
    if (parent < 0 && has_child) return id;  // a root may have one child
    if (has_child)
      join(id);
    else
      unlink(id);
    at(id) = Node();
    free_nodes_.push_back(id);
    id = parent;
    if (has_child) break;
  }
  return id;
}

size_t PrefixTree::bucket(int32_t parent, uint64_t first_unit) const {
  return mix64(mix64(first_unit) ^ static_cast<uint64_t>(static_cast<uint32_t>(parent))) &
         (table_.size() - 1);
}

int32_t PrefixTree::find(int32_t parent, uint64_t first_unit) const {
  for (size_t i = bucket(parent, first_unit);; i = (i + 1) & (table_.size() - 1)) {
    const int32_t id = table_[i];
    if (id < 0 || (node(id).parent == parent && node(id).first_unit == first_unit)) return id;
  }
}

void PrefixTree::add_to_table(int32_t id) {
  size_t i = bucket(node(id).parent, node(id).first_unit);
  while (table_[i] >= 0) i = (i + 1) & (table_.size() - 1);
  table_[i] = id;
}

void PrefixTree::remove_from_table(int32_t id) {
  const size_t mask = table_.size() - 1;
  size_t hole = bucket(node(id).parent, node(id).first_unit);
  while (table_[hole] != id) hole = (hole + 1) & mask;
  table_[hole] = -1;
  // Entries behind the hole move up unless they would pass the place they are looked for at first.
  for (size_t i = (hole + 1) & mask; table_[i] >= 0; i = (i + 1) & mask) {
    const size_t wanted = bucket(node(table_[i]).parent, node(table_[i]).first_unit);
    if (((i - wanted) & mask) < ((i - hole) & mask)) continue;
    table_[hole] = table_[i];
    table_[i] = -1;
    hole = i;
  }
}

Result<void> PrefixTree::check() const {
  int64_t num_used = 0;
  for (size_t id = 0; id < nodes_.size(); ++id) {
    if (!nodes_[id].is_used) continue;
    ++num_used;
    TRY(check_node(static_cast<int32_t>(id)));
  }
  if (num_used != num_nodes())
    return fail(ErrorCode::kInternal,
                fmt::format("{} nodes are used, {} are counted", num_used, num_nodes()));
  return {};
}

Result<void> PrefixTree::check_node(int32_t id) const {
  const auto wrong = [&](const char* what) {
    return fail(ErrorCode::kInternal, fmt::format("node {}: {}", id, what));
  };
  const Node& at = node(id);
  if (find(at.parent, at.first_unit) != id) return wrong("it is not found under its parent");
  if (at.parent >= 0 && at.snapshot < 0 && at.num_children < 2) return wrong("no reason to be");
  if (at.parent < 0 && at.end != 0) return wrong("a root with an edge");
  if (at.parent >= 0 && (at.begin >= at.end || at.begin != node(at.parent).end))
    return wrong("its edge does not go on from its parent");
  if (at.parent >= 0 && pages_.unit(at.witness, at.begin) != at.first_unit)
    return wrong("its edge begins with another unit");
  int32_t num_children = 0;
  bool is_witness_below = at.witness == at.snapshot;
  for (int32_t child = at.first_child; child >= 0; child = node(child).next) {
    ++num_children;
    if (!node(child).is_used || node(child).parent != id) return wrong("a child does not know it");
  }
  if (num_children != at.num_children) return wrong("its children are miscounted");
  for (const Node& other : nodes_) {
    if (!other.is_used || other.snapshot != at.witness || other.snapshot < 0) continue;
    for (const Node* above = &other; !is_witness_below && above->parent >= 0;
         above = &node(above->parent))
      is_witness_below = above->parent == id;
  }
  if (at.witness < 0 || !is_witness_below) return wrong("its witness is not below it");
  return {};
}

}  // namespace yeoul
