#include "cache/prefix_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace yeoul {
namespace {

// Valid wherever `other` is.
bool covers(std::span<const int64_t> first_valid, std::span<const int64_t> other) {
  return std::equal(first_valid.begin(), first_valid.end(), other.begin(),
                    [](int64_t a, int64_t b) { return a <= b; });
}

ResumeLimit limit_of(const PrefixMatch& match) {
  if (match.shared_len == 0) return ResumeLimit::kNothingShared;
  if (match.resume_len < match.candidate_len) return ResumeLimit::kRowsMissing;
  if (match.resume_len < match.shared_len) return ResumeLimit::kNoSnapshot;
  return ResumeLimit::kNone;
}

}  // namespace

PrefixHold::PrefixHold(PrefixIndex& index, int32_t snapshot) : index_(&index), snapshot_(snapshot) {
  index.hold(snapshot);
}

PrefixHold::PrefixHold(PrefixHold&& other) noexcept
    : index_(other.index_), snapshot_(std::exchange(other.snapshot_, -1)) {}

PrefixHold& PrefixHold::operator=(PrefixHold&& other) noexcept {
  if (this == &other) return *this;
  release();
  index_ = other.index_;
  snapshot_ = std::exchange(other.snapshot_, -1);
  return *this;
}

void PrefixHold::release() {
  if (snapshot_ >= 0) index_->release(std::exchange(snapshot_, -1));
}

PrefixIndex::PrefixIndex(PagePool& pool, const PrefixIndexLimits& limits)
    : limits_(limits),
      pages_(pool, limits.tokens_per_page, limits.snapshots_max,
             std::min<int64_t>(pool.num_pages(),
                               pages_for(limits.length_max, limits.tokens_per_page))),
      tree_(pages_, limits.snapshots_max),
      order_(limits.snapshots_max) {
  CHECK(limits.tokens_per_page > 0 && limits.snapshots_max >= 0, "{} tokens a page, {} snapshots",
        limits.tokens_per_page, limits.snapshots_max);
  const auto count = static_cast<size_t>(limits.snapshots_max);
  snapshots_.resize(count);
  first_valid_.resize(count * static_cast<size_t>(limits.shape.num_layers));
  free_numbers_.reserve(count);
  for (int32_t i = limits.snapshots_max; i-- > 0;) free_numbers_.push_back(i);
}

PrefixIndexBytes PrefixIndex::num_bytes(const PrefixIndexLimits& limits) {
  const auto bytes = [](auto count, size_t each) {
    return static_cast<int64_t>(count) * static_cast<int64_t>(each);
  };
  // Of a snapshot: three nodes with four places each in the table of children, its own books and
  // those of the order, its rows and its page numbers.
  return {
      .a_page = bytes(limits.tokens_per_page, sizeof(uint64_t)),
      .a_snapshot =
          bytes(3, sizeof(PrefixTree::Node) + 5 * sizeof(int32_t)) +
          bytes(1, sizeof(Snapshot) + sizeof(PageTable) + 3 * sizeof(int32_t) + sizeof(double)) +
          bytes(limits.shape.num_layers, sizeof(int64_t)) +
          bytes(pages_for(limits.length_max, limits.tokens_per_page), sizeof(int32_t))};
}

const PrefixIndex::Snapshot& PrefixIndex::entry(int32_t snapshot) const {
  CHECK(snapshot >= 0 && static_cast<size_t>(snapshot) < snapshots_.size(), "snapshot {} of {}",
        snapshot, snapshots_.size());
  return snapshots_[static_cast<size_t>(snapshot)];
}

std::span<const int64_t> PrefixIndex::first_valid(int32_t snapshot) const {
  const auto layers = static_cast<size_t>(limits_.shape.num_layers);
  return std::span(first_valid_).subspan(static_cast<size_t>(snapshot) * layers, layers);
}

std::pair<PrefixMatch, int32_t> PrefixIndex::find(uint64_t root, const PrefixUnits& units) const {
  PrefixMatch match;
  int32_t found = -1;
  const TreeWalk walk = tree_.walk(root, units);
  match.shared_len = std::min(walk.shared_len, std::max<int64_t>(0, units.size() - 1));
  for (int32_t node = walk.node; node >= 0; node = tree_.node(node).parent) {
    const int32_t snapshot = tree_.node(node).snapshot;
    const int64_t length = tree_.node(node).end;
    if (snapshot < 0 || length >= units.size()) continue;
    match.candidate_len = std::max(match.candidate_len, length);
    if (!can_resume(limits_.shape, first_valid(snapshot), length, units.size())) continue;
    match.resume_len = length;
    found = snapshot;
    break;
  }
  match.limit = limit_of(match);
  return {match, found};
}

PrefixLookup PrefixIndex::lookup(uint64_t root, const PrefixUnits& units) {
  const auto [match, snapshot] = find(root, units);
  if (snapshot < 0) return {match, {}};
  return {match, PrefixHold(*this, snapshot)};
}

PrefixMatch PrefixIndex::look(uint64_t root, const PrefixUnits& units) const {
  return find(root, units).first;
}

std::optional<int32_t> PrefixIndex::reserve_number() {
  if (free_numbers_.empty()) evict();
  if (free_numbers_.empty()) return std::nullopt;
  const int32_t number = free_numbers_.back();
  free_numbers_.pop_back();
  return number;
}

void PrefixIndex::give_back(int32_t number) {
  CHECK(!is_kept(number), "snapshot {} is kept", number);
  free_numbers_.push_back(number);
}

bool PrefixIndex::insert(int32_t number, uint64_t root, const PrefixUnits& units,
                         const PageTable& pages, std::span<const int64_t> valid) {
  CHECK(units.size() > 0 && units.size() <= limits_.length_max, "{} units", units.size());
  CHECK(valid.size() == static_cast<size_t>(limits_.shape.num_layers), "{} layers of {}",
        valid.size(), limits_.shape.num_layers);
  TreeWalk walk = tree_.walk(root, units);
  const bool is_there = walk.node >= 0 && tree_.node(walk.node).end == units.size();
  if (const int32_t old = is_there ? tree_.node(walk.node).snapshot : -1; old >= 0) {
    // Holds are short, and what is held may not change.
    if (entry(old).num_holds > 0 || !covers(valid, first_valid(old)) ||
        covers(first_valid(old), valid)) {
      if (entry(old).num_holds == 0) rank(old);
      ++stats_.not_kept;
      give_back(number);
      return false;
    }
    drop(old);
    ++stats_.replaced;
    walk = tree_.walk(root, units);
  }
  const int32_t like = walk.partial >= 0 ? walk.partial : walk.node;
  pages_.assign(number, pages, units, like >= 0 ? tree_.node(like).witness : -1, walk.shared_len);
  std::copy(valid.begin(), valid.end(),
            first_valid_.begin() + static_cast<ptrdiff_t>(number) * limits_.shape.num_layers);
  at(number) = {.length = units.size(), .node = tree_.attach(root, units, walk, number)};
  ++num_snapshots_;
  ++stats_.kept;
  rank(number);
  // One more prompt went on from there: it is likelier to be met again.
  const int32_t above = snapshot_above(tree_.node(entry(number).node).parent);
  if (above >= 0 && entry(above).num_holds == 0) rank(above);
  return true;
}

bool PrefixIndex::evict() {
  const std::optional<int32_t> least = order_.first();
  if (!least) return false;
  age_ = order_.rank(*least);
  drop(*least);
  ++stats_.evicted;
  return true;
}

// The nearest snapshot at `node` or above, or -1.
int32_t PrefixIndex::snapshot_above(int32_t node) const {
  while (node >= 0 && tree_.node(node).snapshot < 0) node = tree_.node(node).parent;
  return node < 0 ? -1 : tree_.node(node).snapshot;
}

// Ranks a snapshot as of now: tokens to compute again without it (from the one before it) for each
// page it holds beyond that one, its state counted as one; times the ways that lead on from it. The
// age is the rank of what was evicted last, so that what is not used sinks below what is (the
// GreedyDual policy).
void PrefixIndex::rank(int32_t snapshot) {
  const PrefixTree::Node& node = tree_.node(entry(snapshot).node);
  const int32_t above = snapshot_above(node.parent);
  const int64_t before = above < 0 ? 0 : entry(above).length;
  const int64_t pages =
      pages_for(node.end, limits_.tokens_per_page) - before / limits_.tokens_per_page + 1;
  order_.set(snapshot, age_ + static_cast<double>((node.end - before) * (1 + node.num_children)) /
                                  static_cast<double>(pages));
}

void PrefixIndex::hold(int32_t snapshot) {
  CHECK(is_kept(snapshot), "snapshot {} is gone", snapshot);
  if (at(snapshot).num_holds++ == 0) order_.remove(snapshot);
}

void PrefixIndex::release(int32_t snapshot) {
  if (--at(snapshot).num_holds == 0) rank(snapshot);
}

void PrefixIndex::drop(int32_t snapshot) {
  order_.remove(snapshot);
  tree_.detach(entry(snapshot).node);
  pages_.clear(snapshot);
  at(snapshot) = {};
  --num_snapshots_;
  give_back(snapshot);
}

Result<void> PrefixIndex::check() const {
  TRY(tree_.check());
  int32_t num_kept = 0;
  int32_t num_held = 0;
  for (size_t i = 0; i < snapshots_.size(); ++i) {
    const Snapshot& kept = snapshots_[i];
    const auto number = static_cast<int32_t>(i);
    const auto wrong = [&](const char* what) {
      return fail(ErrorCode::kInternal, fmt::format("snapshot {}: {}", number, what));
    };
    if (kept.node < 0) {
      if (pages_.table(number).size() != 0) return wrong("it is not kept and has pages");
      continue;
    }
    ++num_kept;
    num_held += kept.num_holds > 0;
    const PrefixTree::Node& node = tree_.node(kept.node);
    if (!node.is_used || node.snapshot != number) return wrong("its node does not know it");
    if (node.end != kept.length) return wrong("its node ends elsewhere");
    if (std::ssize(pages_.table(number).pages()) != pages_for(kept.length, limits_.tokens_per_page))
      return wrong("its pages do not match its length");
    if (order_.contains(number) != (kept.num_holds == 0))
      return wrong("it is held and may be evicted, or neither");
  }
  if (num_kept != num_snapshots_ || order_.size() != num_kept - num_held)
    return fail(ErrorCode::kInternal,
                fmt::format("{} snapshots are kept, {} counted", num_kept, num_snapshots_));
  return {};
}

}  // namespace yeoul
