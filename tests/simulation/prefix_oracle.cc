#include "prefix_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "base/counter_rng.h"
#include "cache/invariants.h"
#include "cache/prefix_index.h"

namespace yeoul::simulation {

namespace {

using Units = std::vector<TokenId>;

constexpr ResumeShape kShape{.num_layers = 4, .last_source = 2, .reach = 3};
constexpr int32_t kTokensPerPage = 4;
constexpr int32_t kPages = 40;
constexpr int32_t kSnapshots = 8;
constexpr int64_t kLengthMax = 24;
constexpr size_t kLiveMax = 2;
constexpr size_t kHoldsMax = 2;

// The rule of the cone, followed backwards row by row instead of in closed form: a layer's output
// row needs window rows `reach` back, and those need output rows of the layer before.
bool reads_only_valid(std::span<const int64_t> valid, int64_t length, int64_t prompt_len) {
  int64_t needed = prompt_len - 1;  // first output row wanted of the layer
  for (int32_t layer = kShape.num_layers; layer-- > 0;) {
    if (layer < kShape.last_source) needed = 0;
    const int64_t first_computed = std::max(needed, length);
    const int64_t begin =
        std::max({int64_t{0}, first_computed - kShape.reach, needed - kShape.reach});
    for (int64_t row = begin; row < length; ++row)
      if (row < valid[static_cast<size_t>(layer)]) return false;
    needed = std::max<int64_t>(0, needed - kShape.reach);
  }
  return true;
}

struct Stored {
  uint64_t root = 0;
  Units units;
  std::vector<int64_t> valid;
  int32_t number = -1;
};

// A running sequence: a table that goes on growing behind what snapshots share of it.
struct Live {
  uint64_t root = 0;
  Units units;
  PageTable table;
};

class Run {
 public:
  explicit Run(uint64_t seed)
      : key_(mix64(seed)),
        pool_(kPages),
        places_(static_cast<size_t>(kPages * kTokensPerPage)),
        index_(pool_, {.shape = kShape,
                       .tokens_per_page = kTokensPerPage,
                       .snapshots_max = kSnapshots,
                       .length_max = kLengthMax}) {}

  PrefixOracleReport run(int64_t num_operations);

 private:
  uint64_t draw(uint64_t bound) { return counter_bits(key_, next_++) % bound; }
  bool chance(uint64_t percent) { return draw(100) < percent; }
  void violation(std::string what) {
    if (report_.violations.size() < 5)
      report_.violations.push_back(fmt::format("operation {}: {}", report_.operations, what));
  }
  uint64_t& place(const PageTable& table, int64_t position) {
    const int64_t page = table.pages()[static_cast<size_t>(position / kTokensPerPage)];
    return places_[static_cast<size_t>(page * kTokensPerPage + position % kTokensPerPage)];
  }
  Units draw_units();
  PrefixLookup lookup(uint64_t root, const Units& units);
  PrefixMatch expected(uint64_t root, const Units& units, int32_t& number) const;
  void turn();
  bool grow(Live& live, const Units& units, int64_t from);
  bool take_page(PageTable& table);
  void store(const Live& live);
  bool evict();
  void forget_gone();
  void read_back(const PageTable& table, uint64_t root, const Units& units, int64_t count);
  void check();

  const uint64_t key_;
  uint64_t next_ = 0;
  PagePool pool_;
  std::vector<uint64_t> places_;  // hash of root and units up to there: stands for KV
  PrefixIndex index_;
  std::vector<Stored> stored_;
  std::deque<Live> live_;
  std::deque<PrefixHold> holds_;
  PrefixOracleReport report_;
};

// Few different units and common beginnings, or a piece of what is stored.
Units Run::draw_units() {
  Units units(1 + draw(20));
  for (size_t i = 0; i < units.size(); ++i)
    units[i] = i < 6 && chance(75) ? 7 : static_cast<TokenId>(draw(2));
  if (!stored_.empty() && chance(40)) {
    const Units& other = stored_[draw(stored_.size())].units;
    const size_t common = std::min(units.size(), 1 + draw(other.size()));
    std::copy_n(other.begin(), common, units.begin());
  }
  return units;
}

PrefixMatch Run::expected(uint64_t root, const Units& units, int32_t& number) const {
  PrefixMatch match;
  const auto size = std::ssize(units);
  for (const Stored& stored : stored_) {
    if (stored.root != root) continue;
    const auto length = std::ssize(stored.units);
    int64_t common = 0;
    while (common < std::min(length, size - 1) &&
           stored.units[static_cast<size_t>(common)] == units[static_cast<size_t>(common)])
      ++common;
    match.shared_len = std::max(match.shared_len, common);
    if (common < length) continue;
    match.candidate_len = std::max(match.candidate_len, length);
    if (length <= match.resume_len || !reads_only_valid(stored.valid, length, size)) continue;
    match.resume_len = length;
    number = stored.number;
  }
  match.limit = match.shared_len == 0                    ? ResumeLimit::kNothingShared
                : match.resume_len < match.candidate_len ? ResumeLimit::kRowsMissing
                : match.resume_len < match.shared_len    ? ResumeLimit::kNoSnapshot
                                                         : ResumeLimit::kNone;
  return match;
}

PrefixLookup Run::lookup(uint64_t root, const Units& units) {
  ++report_.operations;
  PrefixLookup found = index_.lookup(root, PrefixUnits(units));
  int32_t number = -1;
  const PrefixMatch wanted = expected(root, units, number);
  if (found.match != wanted || found.hold.snapshot() != number)
    violation(fmt::format("found {} of {}, the oracle {} of {}", found.match.resume_len,
                          found.match.shared_len, wanted.resume_len, wanted.shared_len));
  if (index_.look(root, PrefixUnits(units)) != wanted) violation("a look differs from a lookup");
  report_.full_rereads += found.match.resume_len == 0 && wanted.resume_len > 0;
  report_.hits += found.match.resume_len > 0;
  report_.rows_missing += found.match.limit == ResumeLimit::kRowsMissing;
  return found;
}

// Numbers whose snapshot went away leave the oracle too.
void Run::forget_gone() {
  std::erase_if(stored_, [&](const Stored& stored) { return !index_.is_kept(stored.number); });
}

bool Run::evict() {
  ++report_.operations;
  const size_t before = stored_.size();
  const bool any = index_.evict();
  forget_gone();
  if (stored_.size() + (any ? 1 : 0) != before) violation("an eviction took another number");
  for (const PrefixHold& hold : holds_)
    if (!index_.is_kept(hold.snapshot())) violation("a held snapshot is gone");
  if (!any && before > holds_.size()) violation("nothing was evicted though not all is held");
  return any;
}

bool Run::take_page(PageTable& table) {
  for (;;) {
    if (const std::optional<int32_t> page = pool_.try_take()) {
      table.append(*page);
      return true;
    }
    if (evict()) continue;
    if (holds_.empty()) return false;
    holds_.pop_front();
  }
}

// Writes units [from, size) of the sequence.
bool Run::grow(Live& live, const Units& units, int64_t from) {
  live.units = units;
  while (std::ssize(live.table.pages()) < pages_for(std::ssize(units), kTokensPerPage))
    if (!take_page(live.table)) return false;
  for (int64_t i = from; i < std::ssize(units); ++i) {
    const uint64_t before = i == 0 ? mix64(live.root) : place(live.table, i - 1);
    place(live.table, i) = mix64(before ^ static_cast<uint64_t>(units[static_cast<size_t>(i)]));
  }
  return true;
}

void Run::read_back(const PageTable& table, uint64_t root, const Units& units, int64_t count) {
  uint64_t hash = mix64(root);
  for (int64_t i = 0; i < count; ++i) {
    hash = mix64(hash ^ static_cast<uint64_t>(units[static_cast<size_t>(i)]));
    if (place(table, i) != hash)
      return violation(fmt::format("the page row of position {} is another prefix's", i));
  }
}

void Run::store(const Live& live) {
  ++report_.operations;
  const auto length = std::ssize(live.units);
  const std::optional<int32_t> number = index_.reserve_number();
  forget_gone();
  if (!number) {
    if (holds_.size() < kSnapshots) violation("no number though not every snapshot is held");
    return;
  }
  if (chance(10)) {
    ++report_.cancelled;
    return index_.give_back(*number);
  }
  // As it comes in life: the encoder whole, the decoder from where its cone began.
  const int64_t window = std::max<int64_t>(0, length - kShape.reach);
  const int64_t prompt_len = length + static_cast<int64_t>(draw(8));
  std::vector<int64_t> valid;
  for (int32_t layer = 0; layer < kShape.num_layers; ++layer)
    valid.push_back(
        std::min(length, resume_window_begin(kShape, layer, length, chance(90) ? prompt_len : 0)));
  if (chance(10)) valid[3] = window;
  const auto old = std::ranges::find_if(stored_, [&](const Stored& stored) {
    return stored.root == live.root && stored.units == live.units;
  });
  const auto covers = [](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    return std::ranges::equal(a, b, std::less_equal());
  };
  const bool is_held = old != stored_.end() && std::ranges::any_of(holds_, [&](const auto& hold) {
                         return hold.snapshot() == old->number;
                       });
  const bool wanted =
      old == stored_.end() || (!is_held && covers(valid, old->valid) && !covers(old->valid, valid));
  const bool kept = index_.insert(*number, live.root, PrefixUnits(live.units), live.table, valid);
  if (kept != wanted) violation(kept ? "a state was kept in vain" : "a state was not kept");
  if (!kept) return;
  report_.replaced += old != stored_.end();
  if (old != stored_.end()) stored_.erase(old);
  stored_.push_back({live.root, live.units, valid, *number});
}

void Run::turn() {
  const uint64_t root = chance(20) ? 2 : 1;
  const Units units = draw_units();
  PrefixLookup found = lookup(root, units);
  const int64_t start = found.match.resume_len;
  Live& live = live_.emplace_back(Live{root, {}, PageTable(pool_)});
  if (found.hold) {
    const PageTable& from = index_.pages(found.hold.snapshot());
    read_back(from, root, units, start);
    live.table.share_prefix(from, static_cast<size_t>(start / kTokensPerPage));
    if (start % kTokensPerPage != 0) {
      if (!take_page(live.table)) return live_.pop_back();
      for (int64_t i = start / kTokensPerPage * kTokensPerPage; i < start; ++i)
        place(live.table, i) = place(from, i);
    }
    if (chance(30)) holds_.push_back(std::move(found.hold));
  }
  found.hold.release();
  if (holds_.size() > kHoldsMax) holds_.pop_front();
  if (!grow(live, units, start) || chance(5)) {
    ++report_.failed;
    return live_.pop_back();
  }
  store(live);
  // Sequences that run on behind what was stored of them, and are stored again.
  for (Live& other : live_) {
    if (!chance(30) || std::ssize(other.units) >= kLengthMax) continue;
    Units longer = other.units;
    longer.push_back(static_cast<TokenId>(draw(2)));
    if (grow(other, longer, std::ssize(longer) - 1) && chance(50)) store(other);
  }
  if (chance(5)) evict();
  while (live_.size() > kLiveMax) live_.pop_front();
}

void Run::check() {
  if (const Result<void> ok = index_.check(); !ok) violation(ok.error().message);
  if (static_cast<size_t>(index_.num_snapshots()) != stored_.size())
    violation(
        fmt::format("{} snapshots, the oracle has {}", index_.num_snapshots(), stored_.size()));
  CacheSnapshot pages = snapshot(pool_);
  for (const Stored& stored : stored_) {
    const std::span<const int32_t> table = index_.pages(stored.number).pages();
    pages.tables.emplace_back(table.begin(), table.end());
  }
  for (const Live& live : live_) {
    const std::span<const int32_t> table = live.table.pages();
    pages.tables.emplace_back(table.begin(), table.end());
  }
  if (const Result<void> ok = check_pages(pages); !ok) violation(ok.error().message);
}

PrefixOracleReport Run::run(int64_t num_operations) {
  while (report_.operations < num_operations && report_.violations.size() < 5) {
    turn();
    check();
  }
  for (const Stored& stored : stored_)
    read_back(index_.pages(stored.number), stored.root, stored.units, std::ssize(stored.units));
  report_.evictions = index_.stats().evicted;
  live_.clear();
  holds_.clear();
  while (index_.evict()) {
  }
  if (pool_.num_used() != 0) violation("pages are used though everything is evicted");
  if (index_.num_nodes() != 0) violation("nodes are there though everything is evicted");
  return report_;
}

}  // namespace

PrefixOracleReport run_prefix_oracle(uint64_t seed, int64_t num_operations) {
  return Run(seed).run(num_operations);
}

}  // namespace yeoul::simulation
