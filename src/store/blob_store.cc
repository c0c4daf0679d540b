#include "store/blob_store.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "store/unit_format.h"

namespace yeoul {

namespace {

// Room in the budget for what is no live unit: logs and files being written; manifests, messages.
constexpr int64_t kWriteBuffersBeside = 5;
constexpr int64_t kFixedBytes = 1 << 20;
// RocksDB's own caches and what it needs of a file it has open.
constexpr int64_t kDatabaseBytes = 16 << 20;

int64_t write_buffer_bytes(const BlobStoreOptions& options) {
  const int64_t wanted = std::clamp<int64_t>(options.budget_bytes / 64, 64 << 10, 32 << 20);
  return std::max(wanted, options.unit_bytes_max);
}

// An eighth is left for garbage: units that are gone from the books but not yet from the disk.
int64_t live_max(const BlobStoreOptions& options) {
  return options.budget_bytes - options.budget_bytes / 8 -
         kWriteBuffersBeside * write_buffer_bytes(options) - kFixedBytes;
}

}  // namespace

int64_t BlobStore::budget_min(int64_t unit_bytes_max) {
  return 16 * unit_bytes_max + 4 * kFixedBytes;
}

// Buffers of the queue, three of RocksDB's.
int64_t BlobStore::memory_bytes(const BlobStoreOptions& options) {
  return (options.queue_max + 1) * options.unit_bytes_max + 3 * write_buffer_bytes(options) +
         kDatabaseBytes;
}

Result<std::unique_ptr<BlobStore>> BlobStore::open(const BlobStoreOptions& options) {
  if (options.budget_bytes < budget_min(options.unit_bytes_max))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("store: a budget of at least {} bytes expected, {} found",
                            budget_min(options.unit_bytes_max), options.budget_bytes));
  TRY_ASSIGN(StoreFolder folder, StoreFolder::claim(options.folder));
  const DatabaseOptions database_options = {.folder = folder.database_path(),
                                            .write_buffer_bytes = write_buffer_bytes(options),
                                            .env = options.env};
  TRY_ASSIGN(std::unique_ptr<Database> database, Database::open(database_options));
  std::unique_ptr<BlobStore> store(
      new BlobStore(options, std::move(folder), database_options, std::move(database)));
  TRY_ASSIGN(store->ledger_, store->load_ledger());
  store->measure();
  store->writer_ = std::thread([store = store.get()] { store->run(); });
  return store;
}

BlobStore::BlobStore(const BlobStoreOptions& options, StoreFolder folder,
                     const DatabaseOptions& database_options, std::unique_ptr<Database> database)
    : options_(options),
      write_buffer_bytes_(write_buffer_bytes(options)),
      live_max_(live_max(options)),
      folder_(std::move(folder)),
      database_options_(database_options),
      database_(std::move(database)),
      queue_(static_cast<size_t>(options.queue_max)),
      buffers_(static_cast<size_t>(options.queue_max) + 1) {
  for (std::vector<uint8_t>& buffer : buffers_)
    buffer.reserve(static_cast<size_t>(options.unit_bytes_max));
}

BlobStore::~BlobStore() {
  if (!writer_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_writer_.notify_one();
  writer_.join();
}

// The units on disk, without those that are about to be erased.
Result<UnitLedger> BlobStore::load_ledger() {
  UnitLedger ledger;
  std::vector<BlobKey> corrupt;
  TRY(database_->for_each_record([&](const BlobKey& key, std::string_view record) {
    if (Result<UnitEntry> entry = parse_record(key, record))
      ledger.add(std::move(*entry));
    else
      corrupt.push_back(key);
  }));
  const std::lock_guard lock(mutex_);
  for (const BlobKey& key : forgotten_) ledger.remove(key);
  stats_.units_corrupt += std::ssize(corrupt);
  forgotten_.insert(forgotten_.end(), corrupt.begin(), corrupt.end());
  ledger.sort_by_use();
  return ledger;
}

bool BlobStore::has_buffer() const {
  const std::lock_guard lock(mutex_);
  return !buffers_.empty() && queue_len_ < queue_.size();
}

std::optional<std::vector<uint8_t>> BlobStore::try_buffer() {
  const std::lock_guard lock(mutex_);
  if (buffers_.empty() || queue_len_ == queue_.size()) {
    ++stats_.units_dropped_full;
    return std::nullopt;
  }
  std::vector<uint8_t> buffer = std::move(buffers_.back());
  buffers_.pop_back();
  buffer.clear();
  return buffer;
}

void BlobStore::give_back(std::vector<uint8_t> buffer) {
  const std::lock_guard lock(mutex_);
  buffers_.push_back(std::move(buffer));
}

void BlobStore::put(const BlobKey& key, size_t note_bytes, std::vector<uint8_t> buffer) {
  CHECK(note_bytes <= buffer.size() && std::ssize(buffer) <= options_.unit_bytes_max,
        "a unit of {} bytes with a note of {}, at most {}", buffer.size(), note_bytes,
        options_.unit_bytes_max);
  const std::lock_guard lock(mutex_);
  if (ledger_.find(key) != nullptr || is_queued(key)) {
    buffers_.push_back(std::move(buffer));
    return;
  }
  if (queue_len_ == queue_.size()) {
    ++stats_.units_dropped_full;
    buffers_.push_back(std::move(buffer));
    return;
  }
  queue_[(queue_begin_ + queue_len_++) % queue_.size()] = {key, note_bytes, std::move(buffer)};
  wake_writer_.notify_one();
}

bool BlobStore::is_queued(const BlobKey& key) const {
  if (writing_ == key) return true;
  for (size_t i = 0; i < queue_len_; ++i)
    if (queue_[(queue_begin_ + i) % queue_.size()].key == key) return true;
  return false;
}

bool BlobStore::contains(const BlobKey& key) const {
  const std::lock_guard lock(mutex_);
  return ledger_.find(key) != nullptr || is_queued(key);
}

bool BlobStore::touch(const BlobKey& key) {
  const std::lock_guard lock(mutex_);
  return ledger_.touch(key);
}

bool BlobStore::read_note(const BlobKey& key, std::vector<uint8_t>& note) const {
  const std::lock_guard lock(mutex_);
  const UnitEntry* entry = ledger_.find(key);
  if (entry != nullptr) note.assign(entry->note.begin(), entry->note.end());
  return entry != nullptr;
}

void BlobStore::for_each(const UnitBody& body) const {
  const std::lock_guard lock(mutex_);
  ledger_.for_each([&](const UnitEntry& entry) { body(entry.key, entry.note); });
}

Result<void> BlobStore::read(const BlobKey& key, std::vector<uint8_t>& unit) const {
  const std::shared_lock lock(database_mutex_);
  if (database_ == nullptr) return fail(ErrorCode::kUnavailable, "store: closed after a failure");
  return database_->get(key, [&](std::span<const uint8_t> blob) -> Result<void> {
    TRY_ASSIGN(const std::span<const uint8_t> bytes, unit_of_blob(key, blob));
    unit.assign(bytes.begin(), bytes.end());
    return {};
  });
}

Result<void> BlobStore::get(const BlobKey& key, std::vector<uint8_t>& unit) {
  {
    const std::lock_guard lock(mutex_);
    if (!ledger_.touch(key)) return fail(ErrorCode::kNotFound, "store: no such unit");
  }
  const Moment begin = std::chrono::steady_clock::now();
  const Result<void> got = read(key, unit);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const std::lock_guard lock(mutex_);
  if (got) {
    ++stats_.units_read;
    stats_.bytes_read += std::ssize(unit);
    stats_.read_s += took.count();
    return {};
  }
  // Evicted meanwhile: not an error.
  if (got.error().code == ErrorCode::kNotFound && ledger_.find(key) == nullptr) return got;
  spdlog::warn("{}", got.error().message);
  const bool is_corrupt = got.error().code == ErrorCode::kCorrupt;
  ++(is_corrupt ? stats_.units_corrupt : stats_.read_errors);
  forget(key);
  return got;
}

void BlobStore::erase(const BlobKey& key) {
  const std::lock_guard lock(mutex_);
  forget(key);
}

void BlobStore::forget(const BlobKey& key) {
  if (ledger_.remove(key)) forgotten_.push_back(key);
  wake_writer_.notify_one();
}

Result<void> BlobStore::sync() {
  std::unique_lock lock(mutex_);
  const uint64_t wanted = ++sync_wanted_;
  wake_writer_.notify_one();
  synced_.wait(lock, [&] { return sync_done_ >= wanted; });
  return sync_result_;
}

BlobStoreStats BlobStore::stats() const {
  const std::lock_guard lock(mutex_);
  BlobStoreStats stats = stats_;
  stats.units = ledger_.num_units();
  stats.unit_bytes = ledger_.num_bytes();
  return stats;
}

}  // namespace yeoul
