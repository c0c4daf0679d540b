// DiskTier, writing behind: states the index has kept, each with the pages that are not on disk.

#include <algorithm>

#include "base/check.h"
#include "engine/disk_tier.h"

namespace yeoul {

namespace {

constexpr int64_t kWrittenATurn = 4 << 20;

}  // namespace

void DiskTier::note_kept(int32_t snapshot, uint64_t salt) noexcept {
  Kept& kept = kept_[static_cast<size_t>(snapshot)];
  kept.salt = salt;
  kept.serial = ++last_serial_;
  if (kept.is_queued) {  // the one it was queued for is gone; this one takes its turn
    ++stats_.states_not_written;
    return;
  }
  kept.is_queued = true;
  backlog_[(backlog_begin_ + backlog_len_++) % backlog_.size()] = snapshot;
}

bool DiskTier::is_still_kept(const Write& write) const {
  return index_.is_kept(write.snapshot) &&
         kept_[static_cast<size_t>(write.snapshot)].serial == write.serial;
}

// The next state of the backlog that is still there, with the keys of all its units.
bool DiskTier::begin_write() {
  while (backlog_len_ > 0) {
    const int32_t snapshot = backlog_[backlog_begin_];
    backlog_begin_ = (backlog_begin_ + 1) % backlog_.size();
    --backlog_len_;
    Kept& kept = kept_[static_cast<size_t>(snapshot)];
    kept.is_queued = false;
    if (!index_.is_kept(snapshot)) {
      ++stats_.states_not_written;
      continue;
    }
    const int64_t length = index_.length(snapshot);
    write_ = Write{.snapshot = snapshot,
                   .serial = kept.serial,
                   .root = prefix_root(units_.identity, kept.salt),
                   .length = length,
                   .pages_left = full_pages(length)};
    PrefixChain chain(write_->root);
    write_keys_.clear();
    for (int64_t position = 0; position < length; ++position) {
      chain.append(index_.unit(snapshot, position));
      if ((position + 1) % tokens_per_page_ == 0) write_keys_.push_back(chain.page_key());
    }
    const bool is_complete = serves_every_rest(shape_.resume, index_.first_valid(snapshot), length);
    write_keys_.push_back(chain.state_key(is_complete));
    return true;
  }
  return false;
}

// The state first, then its pages from the last to the first, so that what is worth least without
// the others is what the store evicts first.
bool DiskTier::write_behind() {
  for (int64_t written = 0; written < kWrittenATurn; written += units_.page_bytes) {
    if (!write_ && !begin_write()) return false;
    if (!is_still_kept(*write_)) {
      ++stats_.states_not_written;
      write_.reset();
      continue;
    }
    if (!write_->is_state_done) {
      if (!write_state(*write_)) return true;
      write_->is_state_done = true;
      written += units_.state_bytes_max;
    } else if (write_->pages_left > 0) {
      if (!write_page(*write_, write_->pages_left - 1)) return true;
      --write_->pages_left;
    }
    if (write_->pages_left > 0) continue;
    ++stats_.states_written;
    write_.reset();
  }
  return write_ || backlog_len_ > 0;
}

std::span<const uint64_t> DiskTier::tokens_of(int32_t snapshot, int64_t begin, int64_t end) {
  page_tokens_.clear();
  for (int64_t i = begin; i < end; ++i) page_tokens_.push_back(index_.unit(snapshot, i));
  return page_tokens_;
}

// False when the store's queue is full: again at the next turn.
bool DiskTier::write_page(const Write& write, int64_t page) {
  const BlobKey key = write_keys_[static_cast<size_t>(page)];
  if (store_->touch(key) || store_->contains(key)) return true;
  if (!store_->has_buffer()) return false;
  std::optional<std::vector<uint8_t>> unit = store_->try_buffer();
  const int64_t begin = page * tokens_per_page_;
  append_unit_head(UnitKind::kPage, write.root,
                   tokens_of(write.snapshot, begin, begin + tokens_per_page_), *unit);
  const int32_t number = index_.pages(write.snapshot).pages()[static_cast<size_t>(page)];
  executor_.export_page(number, tokens_per_page_, *unit);
  store_->put(key, 0, std::move(*unit));
  return true;
}

bool DiskTier::write_state(const Write& write) {
  const BlobKey key = write_keys_.back();
  if (store_->touch(key) || store_->contains(key)) return true;
  if (!store_->has_buffer()) return false;
  std::optional<std::vector<uint8_t>> unit = store_->try_buffer();
  append_state_note(write.length, index_.first_valid(write.snapshot), *unit);
  const size_t note_bytes = unit->size();
  const int64_t begin = full_pages(write.length) * tokens_per_page_;
  append_unit_head(UnitKind::kState, write.root, tokens_of(write.snapshot, begin, write.length),
                   *unit);
  if (begin < write.length) {
    const int32_t last = index_.pages(write.snapshot).pages().back();
    executor_.export_page(last, write.length - begin, *unit);
  }
  executor_.export_state(write.snapshot, write.length, *unit);
  store_->put(key, note_bytes, std::move(*unit));
  length_seen_[static_cast<size_t>(write.length)] = true;
  return true;
}

}  // namespace yeoul
