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

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

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
  RangeReaderOptions reading{
      .way = options.way, .allow_direct = options.allow_direct, .depth = kDepth};
  reading.ranges_max =
      kRangesMax * std::min(slots, static_cast<int32_t>(store->wanted_.capacity()));
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
  first_expert_ = cache_.index(layer, 0);
  wanted_.clear();
  missing_.clear();
  ready_.clear();
  next_missing_ = next_ready_ = 0;
  cache_.visit(layer, experts);
  for (const int32_t expert : experts) {
    const size_t place = wanted_.size();
    Wanted& wanted = wanted_.emplace_back();
    wanted.expert = cache_.index(layer, expert);
    const uint64_t key = static_cast<uint64_t>(layer) << 32 | static_cast<uint64_t>(expert);
    if (fault_fires(FaultPoint::kWeightRead, key)) {
      wanted.status = tl::unexpected(failure(wanted.expert, "read failed (injected)"));
      ready_.push_back(place);
    } else if (cache_.hold(wanted.expert)) {
      ready_.push_back(place);
      ++traffic_.hits;
    } else {
      missing_.push_back(place);
      ++traffic_.misses;
    }
  }
  start_reads();
}

// As many as find a slot; the others follow when experts that were given are done with.
void ExpertStore::start_reads() {
  for (; next_missing_ < missing_.size(); ++next_missing_) {
    const size_t place = missing_[next_missing_];
    Wanted& wanted = wanted_[place];
    const std::optional<int32_t> taken = cache_.take(wanted.expert);
    if (!taken) break;
    if (num_reading_++ == 0) reading_since_ = std::chrono::steady_clock::now();
    for (const ExpertLayout::Range& range : layout_.ranges(wanted.expert)) {
      reader_->start({range.shard,
                      range.bytes.offset,
                      {slot(*taken) + range.place, range.bytes.num_bytes},
                      range.num_needed,
                      place});
      ++wanted.ranges_left;
    }
  }
  reader_->pump();
}

void ExpertStore::settle(const RangeOutcome& outcome) {
  const auto place = static_cast<size_t>(outcome.read.tag);
  Wanted& wanted = wanted_[place];
  if (outcome.ok) {
    traffic_.bytes_read += static_cast<int64_t>(outcome.read.num_needed);
  } else if (wanted.status) {
    wanted.status = tl::unexpected(failure(wanted.expert, reader_->explain(outcome)));
  }
  if (--wanted.ranges_left > 0) return;
  if (--num_reading_ == 0) traffic_.read_s += seconds_since(reading_since_);
  if (!wanted.status) cache_.drop(wanted.expert);  // to be tried again next time
  ready_.push_back(place);
}

std::optional<ExpertStore::Ready> ExpertStore::next() {
  release_given();
  start_reads();
  while (const std::optional<RangeOutcome> outcome = reader_->next(false)) settle(*outcome);
  if (next_ready_ == ready_.size() && next_ready_ < wanted_.size()) {
    const auto start = std::chrono::steady_clock::now();
    while (next_ready_ == ready_.size()) {
      start_reads();  // a failed read has left its slot
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
  return {ErrorCode::kUnavailable,
          fmt::format("layer {} expert {}: {}", layer_, expert - first_expert_, cause)};
}

}  // namespace yeoul
