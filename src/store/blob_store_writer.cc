// BlobStore, the thread that writes: units in their order, room for them, what is durable.

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "store/blob_store.h"
#include "store/unit_format.h"

namespace yeoul {

namespace {

constexpr int64_t kBookkeepingBytes = 512;  // of a unit: two keys, the record, their index
// A collection that has to move live units out of old files moves those of a sixteenth of the files
// at a time, so that no more than that is on disk twice.
constexpr double kMovedShare = 1.0 / 16;
constexpr int kMovesMax = 20;

}  // namespace

void BlobStore::run() {
  next_sync_ = std::chrono::steady_clock::now() + options_.sync_interval;
  std::unique_lock lock(mutex_);
  for (bool is_last = false; !is_last;) {
    std::optional<Queued> queued = next(lock);
    is_last = stop_ && !queued;
    // What was put before a call of sync() is written before it is answered.
    const uint64_t sync_wanted = queued ? sync_done_ : sync_wanted_;
    const bool sync_asked = sync_wanted > sync_done_;
    lock.unlock();
    if (queued) write(*queued);
    erase_forgotten();
    Result<void> synced;
    if (sync_asked || is_last || std::chrono::steady_clock::now() >= next_sync_)
      synced = sync_now();
    lock.lock();
    writing_.reset();
    if (queued) buffers_.push_back(std::move(queued->unit));
    if (!sync_asked) continue;
    sync_done_ = sync_wanted;
    sync_result_ = std::move(synced);
    synced_.notify_all();
  }
}

// The next unit, or nothing when it is time for something else.
std::optional<BlobStore::Queued> BlobStore::next(std::unique_lock<std::mutex>& lock) {
  wake_writer_.wait_until(lock, next_sync_, [&] {
    return queue_len_ > 0 || stop_ || sync_wanted_ > sync_done_ ||
           (!forgotten_.empty() && !must_reopen_);
  });
  if (queue_len_ == 0) return std::nullopt;
  Queued queued = std::move(queue_[queue_begin_]);
  queue_begin_ = (queue_begin_ + 1) % queue_.size();
  --queue_len_;
  writing_ = queued.key;
  return queued;
}

void BlobStore::write(const Queued& queued) {
  const auto bytes = static_cast<int64_t>(kBlobHeadBytes + queued.unit.size()) + kBookkeepingBytes;
  const bool is_on = can_write();
  if (is_on && !make_room(bytes)) {
    const std::lock_guard lock(mutex_);
    ++stats_.units_dropped_space;
    return;
  }
  UnitEntry entry = {.key = queued.key, .bytes = bytes};
  const auto note_end = queued.unit.begin() + static_cast<int64_t>(queued.note_bytes);
  entry.note.assign(queued.unit.begin(), note_end);
  {
    const std::lock_guard lock(mutex_);
    entry.last_use = entry.recorded_use = ledger_.take_use();
  }
  Result<void> written;
  if (is_on)
    written = database_->put(queued.key, format_record(entry), blob_head(queued.key, queued.unit),
                             queued.unit);
  if (!written) note_failure(written.error());
  const std::lock_guard lock(mutex_);
  if (!is_on || !written) {
    ++stats_.units_dropped_error;
    return;
  }
  ledger_.add(std::move(entry));
  is_dirty_ = true;
  ++stats_.units_written;
  stats_.bytes_written += bytes;
  disk_bytes_ += bytes;
  since_measured_ += bytes;
}

// Those no longer in the ledger leave the database; they are tried again after a failure.
void BlobStore::erase_forgotten() {
  std::vector<BlobKey> keys;
  {
    const std::lock_guard lock(mutex_);
    if (forgotten_.empty() || must_reopen_) return;
    keys.swap(forgotten_);
  }
  is_dirty_ = true;
  const Result<void> erased = database_->erase(keys);
  if (erased) return;
  note_failure(erased.error());
  const std::lock_guard lock(mutex_);
  forgotten_.insert(forgotten_.end(), keys.begin(), keys.end());
}

// Whether `bytes` more fit into the budget, after evicting and collecting what that takes.
bool BlobStore::make_room(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    while (ledger_.num_bytes() + bytes > live_max_ && ledger_.victim() != nullptr) {
      const BlobKey key = ledger_.victim()->key;
      ledger_.remove(key);
      forgotten_.push_back(key);
      ++stats_.units_evicted;
    }
  }
  erase_forgotten();
  if (since_measured_ >= write_buffer_bytes_) measure();
  // A unit is in the log and in a file of its own until the log is dropped.
  if (disk_bytes_ + 2 * bytes > options_.budget_bytes) collect();
  return disk_bytes_ + 2 * bytes <= options_.budget_bytes;
}

void BlobStore::measure() {
  disk_bytes_ = folder_.num_bytes();
  since_measured_ = 0;
  const std::lock_guard lock(mutex_);
  stats_.disk_bytes = disk_bytes_;
}

// Files in which nothing is alive go by themselves; if that is not enough, the live units of the
// oldest files are moved, until a sixteenth of the budget is free.
void BlobStore::collect() {
  const int64_t goal = options_.budget_bytes - options_.budget_bytes / 16;
  {
    const std::lock_guard lock(mutex_);
    ++stats_.collections;
  }
  Result<void> done = database_->flush();
  if (done) done = database_->compact(0);
  measure();
  for (int moves = 0; done && disk_bytes_ > goal && moves < kMovesMax; ++moves) {
    const auto files = static_cast<double>(std::max<int64_t>(1, database_->num_blob_files()));
    done = database_->compact(std::min(1.0, std::max(kMovedShare, 1.5 / files)));
    measure();
  }
  if (!done) note_failure(done.error());
}

// The order of use and everything written so far become durable.
Result<void> BlobStore::sync_now() {
  next_sync_ = std::chrono::steady_clock::now() + options_.sync_interval;
  if (!can_write()) return fail(ErrorCode::kUnavailable, "store: not writing after a failure");
  std::vector<std::pair<BlobKey, std::string>> records;
  {
    const std::lock_guard lock(mutex_);
    for (const UnitEntry& entry : ledger_.take_unrecorded())
      records.emplace_back(entry.key, format_record(entry));
  }
  if (!is_dirty_ && records.empty()) return {};
  Result<void> synced;
  if (!records.empty()) synced = database_->put_records(records);
  if (synced) synced = database_->sync();
  if (!synced) {
    note_failure(synced.error());
    return synced;
  }
  note_durable();
  return {};
}

void BlobStore::note_durable() {
  is_dirty_ = false;
  const std::lock_guard lock(mutex_);
  stats_.units_durable = stats_.units_written - stats_.units_lost;
}

// After a failed write the database stays as it is for a while, to be read, and is then opened
// anew: that recovers what its log holds, and relies on nothing that a failed sync may have left.
bool BlobStore::can_write() {
  if (!must_reopen_) return true;
  if (std::chrono::steady_clock::now() < off_until_) return false;
  Result<void> reopened = folder_.try_writing();
  if (reopened) reopened = reopen();
  if (!reopened) {
    note_failure(reopened.error());
    return false;
  }
  must_reopen_ = false;
  note_durable();
  spdlog::info("store: writing again");
  return true;
}

Result<void> BlobStore::reopen() {
  {
    const std::lock_guard alone(database_mutex_);
    database_.reset();
    TRY_ASSIGN(database_, Database::open(database_options_));
  }
  TRY_ASSIGN(UnitLedger found, load_ledger());
  const std::lock_guard lock(mutex_);
  stats_.units_lost += std::max<int64_t>(0, ledger_.num_units() - found.num_units());
  ledger_ = std::move(found);
  return {};
}

void BlobStore::note_failure(const Error& error) {
  spdlog::warn("{}; nothing is written for {} ms", error.message, options_.retry_after.count());
  must_reopen_ = true;
  off_until_ = std::chrono::steady_clock::now() + options_.retry_after;
  const std::lock_guard lock(mutex_);
  ++stats_.write_errors;
}

}  // namespace yeoul
