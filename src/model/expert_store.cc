#include "model/expert_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/fault.h"

namespace yeoul {
namespace {

// Ranges of an expert at most: each of its six tensors apart.
constexpr int32_t kRangesMax = 6;
// Reads the device has at a time: 128 MiB, so that it stays busy while an expert is computed and
// nobody hands it more.
constexpr int32_t kDepth = 256;
// Of them reads ahead: 32 MiB, so that the device is busy through an attention of some 20 ms and
// what is wanted then is behind no more than that.
constexpr int32_t kDepthAhead = 64;
constexpr int32_t kNone = -1;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

ExpertTraffic operator+(const ExpertTraffic& a, const ExpertTraffic& b) {
  return {.hits = a.hits + b.hits,
          .misses = a.misses + b.misses,
          .foreseen = a.foreseen + b.foreseen,
          .mistaken = a.mistaken + b.mistaken,
          .bytes_read = a.bytes_read + b.bytes_read,
          .read_s = a.read_s + b.read_s,
          .wait_s = a.wait_s + b.wait_s};
}

ExpertTraffic operator-(const ExpertTraffic& a, const ExpertTraffic& b) {
  return {.hits = a.hits - b.hits,
          .misses = a.misses - b.misses,
          .foreseen = a.foreseen - b.foreseen,
          .mistaken = a.mistaken - b.mistaken,
          .bytes_read = a.bytes_read - b.bytes_read,
          .read_s = a.read_s - b.read_s,
          .wait_s = a.wait_s - b.wait_s};
}

ExpertStore::ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, ExpertLayout layout,
                         int32_t num_slots)
    : checkpoint_(std::move(checkpoint)),
      layout_(std::move(layout)),
      cache_(layout_.experts_of_layer(), num_slots) {
  const auto wanted_max =
      static_cast<size_t>(*std::ranges::max_element(layout_.experts_of_layer()));
  wanted_.reserve(wanted_max);
  missing_.reserve(wanted_max);
  ready_.reserve(wanted_max);
  arrival_of_.assign(static_cast<size_t>(layout_.num_experts()), kNone);
  // What is on its way has a slot: a step's experts, and as many of the guess about the next.
  const size_t arrivals_max = std::min(static_cast<size_t>(num_slots), 2 * wanted_max);
  arrivals_.resize(arrivals_max);
  guesses_.reserve(arrivals_max);
  is_guess_.assign(static_cast<size_t>(layout_.num_experts()), 0);
  for (size_t i = arrivals_max; i-- > 0;) free_arrivals_.push_back(static_cast<int32_t>(i));
}

Result<std::unique_ptr<ExpertStore>> ExpertStore::create(
    std::shared_ptr<const Checkpoint> checkpoint, const ExpertStoreOptions& options) {
  TRY_ASSIGN(ExpertLayout layout, ExpertLayout::create(*checkpoint));
  const int32_t slots = options.num_slots > 0 ? std::min(options.num_slots, layout.num_experts())
                                              : layout.num_experts();
  auto store = std::unique_ptr<ExpertStore>(
      new ExpertStore(std::move(checkpoint), std::move(layout), slots));
  TRY_ASSIGN(store->memory_,
             AnonymousMemory::reserve(static_cast<uint64_t>(slots) * store->layout_.slot_bytes()));
  store->read_ahead_ = options.read_ahead;
  RangeReaderOptions reading{.way = options.way,
                             .allow_direct = options.allow_direct,
                             .depth = kDepth,
                             .depth_ahead = kDepthAhead};
  reading.ranges_max = kRangesMax * static_cast<int32_t>(store->arrivals_.size());
  // Where every expert has its slot each is read once: preparing all memory would cost more.
  if (!store->holds_all()) reading.memory = {store->memory_.data(), store->memory_.size()};
  TRY_ASSIGN(store->reader_, RangeReader::open(store->checkpoint_->shards(), reading));
  return store;
}

std::byte* ExpertStore::slot(int32_t index) const {
  return memory_.data() + static_cast<uint64_t>(index) * layout_.slot_bytes();
}

void ExpertStore::begin(int32_t layer, std::span<const int32_t> experts) {
  release_given();
  CHECK(next_ready_ == wanted_.size(), "layer {}: the step before has not ended", layer);
  layer_ = layer;
  wanted_.clear();
  missing_.clear();
  ready_.clear();
  next_missing_ = next_ready_ = 0;
  cache_.visit(layer, experts);
  cache_.forget_expected();
  for (const int32_t expert : experts) want(layer, expert);
  give_up_guesses();
  start_reads();
}

void ExpertStore::want(int32_t layer, int32_t expert) {
  const size_t place = wanted_.size();
  Wanted& wanted = wanted_.emplace_back();
  wanted.expert = cache_.index(layer, expert);
  const int32_t arrival = arrival_of_[static_cast<size_t>(wanted.expert)];
  const uint64_t key = static_cast<uint64_t>(layer) << 32 | static_cast<uint64_t>(expert);
  if (fault_fires(FaultPoint::kWeightRead, key)) {
    wanted.status = tl::unexpected(failure(wanted.expert, "read failed (injected)"));
    ready_.push_back(place);
  } else if (arrival != kNone) {
    arrivals_[static_cast<size_t>(arrival)].place = place;
    reader_->raise(static_cast<uint64_t>(arrival));
    ++traffic_.misses;
    ++traffic_.foreseen;
  } else if (cache_.hold(wanted.expert)) {
    ready_.push_back(place);
    uint8_t& is_guess = is_guess_[static_cast<size_t>(wanted.expert)];
    traffic_.hits += is_guess != 0 ? 0 : 1;
    traffic_.misses += is_guess;
    traffic_.foreseen += is_guess;
    is_guess = 0;
  } else {
    missing_.push_back(place);
    ++traffic_.misses;
  }
}

// What was read ahead and this step does not want: of experts still on their way nothing is read
// that the device was not asked for yet.
void ExpertStore::give_up_guesses() {
  for (const int32_t expert : guesses_) {
    uint8_t& is_guess = is_guess_[static_cast<size_t>(expert)];
    traffic_.mistaken += is_guess;
    is_guess = 0;
  }
  guesses_.clear();
  for (size_t i = 0; i < arrivals_.size(); ++i) {
    Arrival& arrival = arrivals_[i];
    if (arrival.ranges_left == 0 || arrival.place || arrival.is_given_up) continue;
    arrival.is_given_up = true;
    ++traffic_.mistaken;
    reader_->give_up(i);
  }
}

// Where not every layer could keep such a guess, it would push out what the forecast keeps.
bool ExpertStore::takes_guess_of(size_t num_experts) const {
  const size_t num_layers = layout_.experts_of_layer().size();
  return read_ahead_ && !holds_all() &&
         num_experts * num_layers <= static_cast<size_t>(cache_.num_slots());
}

void ExpertStore::foresee(int32_t layer, std::span<const int32_t> experts) {
  // Slots for what is wanted now come first.
  if (!takes_guess_of(experts.size()) || next_missing_ < missing_.size()) return;
  for (const int32_t expert : experts) {
    const int32_t index = cache_.index(layer, expert);
    if (cache_.has_slot(index)) {
      cache_.expect(index);
      continue;
    }
    if (free_arrivals_.empty()) break;
    const std::optional<int32_t> taken = cache_.take_ahead(index);
    if (!taken) break;
    start_read(index, *taken, std::nullopt);
  }
  reader_->pump();
}

// As many as find a slot; the others follow when experts that were given are done with.
void ExpertStore::start_reads() {
  for (; next_missing_ < missing_.size() && !free_arrivals_.empty(); ++next_missing_) {
    const size_t place = missing_[next_missing_];
    const std::optional<int32_t> taken = cache_.take(wanted_[place].expert);
    if (!taken) break;
    start_read(wanted_[place].expert, *taken, place);
  }
  reader_->pump();
}

void ExpertStore::start_read(int32_t expert, int32_t slot_index, std::optional<size_t> place) {
  const int32_t index = free_arrivals_.back();
  free_arrivals_.pop_back();
  arrival_of_[static_cast<size_t>(expert)] = index;
  Arrival& arrival = arrivals_[static_cast<size_t>(index)];
  arrival = {.expert = expert, .place = place, .is_foreseen = !place};
  if (num_reading_++ == 0) reading_since_ = std::chrono::steady_clock::now();
  for (const ExpertLayout::Range& range : layout_.ranges(expert)) {
    reader_->start({.file = range.shard,
                    .offset = range.bytes.offset,
                    .into = {slot(slot_index) + range.place, range.bytes.num_bytes},
                    .num_needed = range.num_needed,
                    .tag = static_cast<uint64_t>(index),
                    .is_ahead = !place});
    ++arrival.ranges_left;
  }
}

void ExpertStore::settle(const RangeOutcome& outcome) {
  Arrival& arrival = arrivals_[outcome.read.tag];
  if (outcome.ok) {
    traffic_.bytes_read += static_cast<int64_t>(outcome.read.num_needed);
  } else if (arrival.status) {
    // What was read ahead is read again before anyone hears of it.
    arrival.status =
        tl::unexpected(arrival.is_foreseen ? Error{ErrorCode::kUnavailable, {}}
                                           : failure(arrival.expert, reader_->explain(outcome)));
  }
  if (--arrival.ranges_left == 0) end_arrival(arrival);
}

void ExpertStore::end_arrival(Arrival& arrival) {
  arrival_of_[static_cast<size_t>(arrival.expert)] = kNone;
  free_arrivals_.push_back(static_cast<int32_t>(&arrival - arrivals_.data()));
  if (--num_reading_ == 0) traffic_.read_s += seconds_since(reading_since_);
  if (!arrival.status) {
    cache_.drop(arrival.expert);  // to be tried again when it is wanted
  } else if (!arrival.place) {
    cache_.release(arrival.expert);
    if (!arrival.is_given_up) {
      is_guess_[static_cast<size_t>(arrival.expert)] = 1;
      guesses_.push_back(arrival.expert);
    }
  }
  if (!arrival.place) return;
  if (!arrival.status && arrival.is_foreseen) {
    // Given up before it was wanted after all, or failed while nobody waited.
    missing_.push_back(*arrival.place);
    return;
  }
  wanted_[*arrival.place].status = std::move(arrival.status);
  ready_.push_back(*arrival.place);
}

std::optional<ExpertStore::Ready> ExpertStore::next() {
  release_given();
  start_reads();
  while (const std::optional<RangeOutcome> outcome = reader_->next(false)) settle(*outcome);
  if (next_ready_ == ready_.size() && next_ready_ < wanted_.size()) {
    const auto start = std::chrono::steady_clock::now();
    while (next_ready_ == ready_.size()) {
      start_reads();  // a failed read has left its slot, one ahead has to be made again
      const std::optional<RangeOutcome> outcome = reader_->next(true);
      CHECK(outcome.has_value(), "layer {}: an expert is wanted and not read", layer_);
      settle(*outcome);
    }
    traffic_.wait_s += seconds_since(start);
  }
  if (next_ready_ == wanted_.size()) return std::nullopt;
  const size_t place = ready_[next_ready_++];
  const Wanted& wanted = wanted_[place];
  if (!wanted.status) return Ready{place, tl::unexpected(wanted.status.error())};
  given_ = place;
  return Ready{place, layout_.weights(wanted.expert, slot(cache_.slot(wanted.expert)))};
}

void ExpertStore::release_given() {
  if (!given_) return;
  cache_.release(wanted_[*given_].expert);
  given_.reset();
}

Result<ExpertWeights> ExpertStore::fetch(int32_t layer, int32_t expert) {
  begin(layer, {&expert, 1});
  return next()->weights;
}

Error ExpertStore::failure(int32_t expert, const std::string& cause) const {
  const std::span<const int32_t> sizes = layout_.experts_of_layer();
  size_t layer = 0;
  for (; expert >= sizes[layer]; ++layer) expert -= sizes[layer];
  return {ErrorCode::kUnavailable, fmt::format("layer {} expert {}: {}", layer, expert, cause)};
}

}  // namespace yeoul
