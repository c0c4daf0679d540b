// DiskTier, bringing back: what is there, whether it is worth it, its way into the index.

#include "engine/disk_tier.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/prefix_sharing.h"

namespace yeoul {

namespace {

constexpr int32_t kQueueUnits = 16;

using SteadyTime = std::chrono::steady_clock;

double seconds_since(SteadyTime::time_point begin) {
  return std::chrono::duration<double>(SteadyTime::now() - begin).count();
}

}  // namespace

int64_t DiskTier::unit_bytes_max(const StateUnits& units, const ModelShape& shape) {
  const int64_t page = unit_head_bytes(shape.tokens_per_page) + units.page_bytes;
  return page + state_note_bytes(shape.num_layers) + units.state_bytes_max;
}

BlobStoreOptions DiskTier::store_options(const DiskTierOptions& options, int64_t unit_bytes_max) {
  return {.folder = options.folder,
          .budget_bytes = options.budget_bytes,
          .unit_bytes_max = unit_bytes_max,
          .queue_max = kQueueUnits};
}

Result<std::unique_ptr<BlobStore>> DiskTier::open_store(const DiskTierOptions& options,
                                                        const Executor& executor) {
  const StateUnits units = executor.state_units();
  if (units.identity.empty())
    return fail(ErrorCode::kUnsupported, "this executor keeps nothing on disk");
  return BlobStore::open(store_options(options, unit_bytes_max(units, executor.shape())));
}

int64_t DiskTier::memory_bytes(const DiskTierOptions& options, int64_t unit_bytes_max,
                               int64_t context_max) {
  return BlobStore::memory_bytes(store_options(options, unit_bytes_max)) +
         UnitReader::memory_bytes(unit_bytes_max) +
         context_max * static_cast<int64_t>(sizeof(TokenId));
}

DiskTier::DiskTier(const House& house, std::unique_ptr<BlobStore> store,
                   std::function<void()> notify)
    : pool_(house.pool),
      index_(house.index),
      executor_(house.executor),
      shape_(house.executor.shape()),
      units_(house.executor.state_units()),
      tokens_per_page_(shape_.tokens_per_page),
      store_(std::move(store)),
      reader_(*store_, unit_bytes_max(units_, shape_),
              static_cast<size_t>(full_pages(shape_.context_max)) + 1, std::move(notify)),
      pages_(pool_) {
  const auto pages_max = static_cast<size_t>(full_pages(shape_.context_max)) + 1;
  length_seen_.resize(static_cast<size_t>(shape_.context_max) + 1);
  note_.first_valid.resize(static_cast<size_t>(shape_.num_layers));
  page_tokens_.reserve(static_cast<size_t>(tokens_per_page_));
  kept_.resize(static_cast<size_t>(index_.limits().snapshots_max));
  backlog_.resize(kept_.size());
  write_keys_.reserve(pages_max + 1);
  found_keys_.reserve(pages_max + 1);
  restore_keys_.reserve(pages_max + 1);
  tokens_.reserve(static_cast<size_t>(shape_.context_max));
  pages_.reserve(pages_max);
  note_bytes_.reserve(static_cast<size_t>(state_note_bytes(shape_.num_layers)));
  store_->for_each([&](const BlobKey&, std::span<const uint8_t> note) {
    if (parse_state_note(note, note_) && note_.length >= 0 && note_.length <= shape_.context_max)
      length_seen_[static_cast<size_t>(note_.length)] = true;
  });
}

bool DiskTier::serves(const BlobKey& state_key, int64_t length, int64_t prompt_len) {
  return store_->read_note(state_key, note_bytes_) && parse_state_note(note_bytes_, note_) &&
         note_.length == length && can_resume(shape_.resume, note_.first_valid, length, prompt_len);
}

// The longest state on disk that the prompt may go on from and whose pages are there too, 0 if
// there is none. Leaves the keys of its pages, then its own, in found_keys_.
int64_t DiskTier::find(const BlobKey& root, std::span<const TokenId> prompt) {
  const PrefixUnits units(prompt);
  const auto prompt_len = static_cast<int64_t>(prompt.size());
  const int64_t end = std::min(prompt_len - 1, shape_.context_max);
  PrefixChain chain(root);
  int64_t best = 0;
  BlobKey best_key;
  found_keys_.clear();
  for (int64_t length = 1; length <= end; ++length) {
    chain.append(units[length - 1]);
    if (length % tokens_per_page_ == 0) {
      const BlobKey page = chain.page_key();
      if (!store_->contains(page)) break;
      found_keys_.push_back(page);
    }
    if (!length_seen_[static_cast<size_t>(length)]) continue;
    for (const bool is_complete : {true, false}) {
      const BlobKey key = chain.state_key(is_complete);
      if (!serves(key, length, prompt_len)) continue;
      best = length;
      best_key = key;
      break;
    }
  }
  found_keys_.resize(static_cast<size_t>(full_pages(best)));
  if (best > 0) found_keys_.push_back(best_key);
  return best;
}

// At the rate measured so far; before the first reading the disk is taken to be fast.
double DiskTier::fetch_seconds(int64_t num_pages) const {
  const BlobStoreStats store = store_->stats();
  if (store.bytes_read == 0) return 0;
  const auto bytes = static_cast<double>(num_pages * units_.page_bytes + units_.state_bytes_max);
  return bytes * store.read_s / static_cast<double>(store.bytes_read);
}

bool DiskTier::is_worth_it(const Wish& wish, int64_t length, int64_t known) {
  if (length < known + kWorthWaiting) return false;
  const double computing = static_cast<double>(length - known) * wish.seconds_a_token;
  if (computing == 0 || fetch_seconds(full_pages(length) - full_pages(known)) <= computing)
    return true;
  ++stats_.fetches_declined;
  return false;
}

DiskTier::Start DiskTier::begin_restore(const Wish& wish) {
  const PrefixUnits units(wish.prompt);
  const int64_t known = index_.look(wish.salt, units).resume_len;
  if (restore_ && restore_->salt == wish.salt &&
      common_prefix(wish.prompt, tokens_) >= known + kWorthWaiting)
    return Start::kUnderWay;
  const BlobKey root = prefix_root(units_.identity, wish.salt);
  const int64_t length = wish.may_begin ? find(root, wish.prompt) : 0;
  if (!is_worth_it(wish, length, known)) return Start::kNothing;
  if (restore_) return Start::kUnderWay;
  PrefixLookup found = index_.lookup(wish.salt, units);
  const auto pages_known = static_cast<size_t>(full_pages(found.match.resume_len));
  if (found.hold) pages_.share_prefix(index_.pages(found.hold.snapshot()), pages_known);
  restore_ = Restore{.end = {.request_id = wish.request_id},
                     .salt = wish.salt,
                     .root = root,
                     .length = length,
                     .began = SteadyTime::now()};
  restore_keys_.assign(found_keys_.begin(), found_keys_.end());
  tokens_.assign(wish.prompt.begin(), wish.prompt.begin() + length);
  reader_.start(std::span(restore_keys_).subspan(pages_known));
  return Start::kBegun;
}

std::optional<RestoreEnd> DiskTier::advance(int64_t bytes_max) {
  if (!restore_) return std::nullopt;
  if (restore_->is_dropped) return end_restore(false);
  int64_t copied = 0;
  while (copied < bytes_max) {
    const UnitReader::Unit* unit = reader_.front();
    if (unit == nullptr) return std::nullopt;
    copied += std::ssize(unit->bytes);
    const bool is_state = std::ssize(pages_.pages()) == full_pages(restore_->length);
    const Result<void> taken = take(*unit);
    if (taken && !is_state) {
      reader_.pop();
      continue;
    }
    reader_.stop();
    if (taken) return end_restore(true);
    if (taken.error().code == ErrorCode::kResourceExhausted) {
      ++stats_.restores_dropped;
    } else {
      ++stats_.restores_failed;
      spdlog::warn("disk tier: {} tokens are computed again: {}", restore_->length,
                   taken.error().message);
    }
    return end_restore(false);
  }
  return std::nullopt;
}

Result<void> DiskTier::take(const UnitReader::Unit& unit) {
  TRY(unit.status);
  return std::ssize(pages_.pages()) < full_pages(restore_->length) ? take_page(unit.bytes)
                                                                   : take_state(unit.bytes);
}

Result<int32_t> DiskTier::new_page() {
  std::optional<int32_t> page = pool_.try_take();
  while (!page && index_.evict()) page = pool_.try_take();
  if (!page) return fail(ErrorCode::kResourceExhausted, "no page is free");
  return *page;
}

Result<void> DiskTier::take_page(std::span<const uint8_t> unit) {
  const int64_t begin = std::ssize(pages_.pages()) * tokens_per_page_;
  TRY_ASSIGN(const std::span<const uint8_t> rows,
             check_unit_head(UnitKind::kPage, restore_->root, PrefixUnits(tokens_), begin,
                             begin + tokens_per_page_, unit));
  TRY_ASSIGN(const int32_t page, new_page());
  pages_.append(page);
  return executor_.import_page(page, tokens_per_page_, rows);
}

Result<void> DiskTier::take_state(std::span<const uint8_t> unit) {
  const auto note_bytes = static_cast<size_t>(state_note_bytes(shape_.num_layers));
  const int64_t length = restore_->length;
  const int64_t begin = full_pages(length) * tokens_per_page_;
  if (unit.size() < note_bytes)
    return fail(ErrorCode::kCorrupt, fmt::format("disk tier: a state of {} bytes", unit.size()));
  TRY_ASSIGN(std::span<const uint8_t> rest,
             check_unit_head(UnitKind::kState, restore_->root, PrefixUnits(tokens_), begin, length,
                             unit.subspan(note_bytes)));
  if (begin < length) {
    TRY_ASSIGN(const int32_t page, new_page());
    pages_.append(page);
    const auto row_bytes = static_cast<size_t>(executor_.page_bytes(length - begin));
    if (rest.size() < row_bytes)
      return fail(ErrorCode::kCorrupt, fmt::format("disk tier: {} bytes of rows expected, {} found",
                                                   row_bytes, rest.size()));
    TRY(executor_.import_page(page, length - begin, rest.first(row_bytes)));
    rest = rest.subspan(row_bytes);
  }
  const std::optional<int32_t> number = index_.reserve_number();
  if (!number) return fail(ErrorCode::kResourceExhausted, "every state is held");
  if (Result<void> imported = executor_.import_state(*number, length, rest); !imported) {
    index_.give_back(*number);
    return imported;
  }
  index_.insert(*number, restore_->salt, PrefixUnits(tokens_), pages_,
                executor_.snapshot_first_valid(*number));
  return {};
}

// The state and its last pages are worth least without those before them.
void DiskTier::touch_all() {
  store_->touch(restore_keys_.back());
  for (size_t i = restore_keys_.size() - 1; i-- > 0;) store_->touch(restore_keys_[i]);
}

RestoreEnd DiskTier::end_restore(bool is_there) {
  RestoreEnd end = restore_->end;
  if (is_there) {
    end.length = restore_->length;
    ++stats_.restores;
    stats_.restored_tokens += end.length;
    stats_.restore_s += seconds_since(restore_->began);
    touch_all();
  }
  pages_.clear();
  restore_.reset();
  return end;
}

bool DiskTier::drop_restore() {
  if (pages_.size() == 0) return false;
  reader_.stop();
  pages_.clear();
  restore_->is_dropped = true;
  ++stats_.restores_dropped;
  return true;
}

DiskTierStats DiskTier::stats() const {
  DiskTierStats stats = stats_;
  stats.store = store_->stats();
  return stats;
}

}  // namespace yeoul
