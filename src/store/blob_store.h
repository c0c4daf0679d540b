#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/blob_key.h"
#include "store/database.h"
#include "store/store_folder.h"
#include "store/unit_ledger.h"

namespace yeoul {

struct BlobStoreOptions {
  std::string folder;
  int64_t budget_bytes = 0;    // of the folder; docs/store.md says by how much it may be passed
  int64_t unit_bytes_max = 0;  // of one unit, its note included
  int32_t queue_max = 16;      // units waiting to be written; each has unit_bytes_max of memory
  std::chrono::milliseconds sync_interval{1000};
  std::chrono::milliseconds retry_after{10000};  // nothing is written so long after a failure
  rocksdb::Env* env = nullptr;                   // tests only: files that fail. Borrowed.
};

// Counts since the store was opened; units, bytes and disk_bytes are now.
struct BlobStoreStats {
  int64_t units = 0;
  int64_t unit_bytes = 0;
  int64_t disk_bytes = 0;
  int64_t units_written = 0;
  int64_t units_durable = 0;  // of those written: no power cut can take them back
  int64_t bytes_written = 0;
  int64_t units_dropped_full = 0;   // the queue was full
  int64_t units_dropped_error = 0;  // not written after a failure
  int64_t units_dropped_space = 0;  // the budget had no room, not even after collecting garbage
  int64_t units_evicted = 0;
  int64_t units_read = 0;
  int64_t bytes_read = 0;
  int64_t units_corrupt = 0;  // a checksum did not fit: erased
  int64_t read_errors = 0;
  int64_t write_errors = 0;
  int64_t units_lost = 0;   // written, and gone when the store went on after a failed write
  int64_t collections = 0;  // of garbage
  double read_s = 0;        // spent reading units
};

// Units of bytes under keys, kept on disk over restarts: written behind by a thread of its own, the
// least recently used evicted within a budget, every byte under a checksum. Knows neither what a
// key is made of nor what a unit means. A unit begins with a note, bytes that are kept in memory
// too, so that its owner can judge it without reading it. What cannot be written or read is counted
// and missing; it is never wrong. Internally synchronized.
class BlobStore {
 public:
  static Result<std::unique_ptr<BlobStore>> open(const BlobStoreOptions& options);
  // The smallest budget that open() accepts, and the memory a store takes besides its notes.
  static int64_t budget_min(int64_t unit_bytes_max);
  static int64_t memory_bytes(const BlobStoreOptions& options);
  // Writes what is queued, syncs, closes.
  ~BlobStore();
  BlobStore(const BlobStore&) = delete;
  BlobStore& operator=(const BlobStore&) = delete;

  // An empty buffer with room for a unit; nullopt when all are queued, which counts as a drop. The
  // caller passes it to put() or give_back(). None of these four waits for the disk or allocates.
  bool has_buffer() const;
  std::optional<std::vector<uint8_t>> try_buffer();
  void give_back(std::vector<uint8_t> buffer);
  // Queues a unit, whose first note_bytes are its note. One whose key is there is not written
  // again.
  void put(const BlobKey& key, size_t note_bytes, std::vector<uint8_t> buffer);

  // Whether the unit is written or queued. Does not wait for the disk.
  bool contains(const BlobKey& key) const;
  // Makes it the most recently used. False when it is not there (queued ones are not yet).
  bool touch(const BlobKey& key);
  // Copies the note. False when the unit is not there (queued ones are not yet).
  bool read_note(const BlobKey& key, std::vector<uint8_t>& note) const;
  // Every unit that is written, the most recently used first. Body may not call the store.
  using UnitBody = std::function<void(const BlobKey& key, std::span<const uint8_t> note)>;
  void for_each(const UnitBody& body) const;

  // Reads a unit. kNotFound, kCorrupt or kUnavailable; a unit that could not be read is gone.
  Result<void> get(const BlobKey& key, std::vector<uint8_t>& unit);
  void erase(const BlobKey& key);

  // Waits until everything put so far is durable.
  Result<void> sync();
  BlobStoreStats stats() const;

 private:
  struct Queued {
    BlobKey key;
    size_t note_bytes = 0;
    std::vector<uint8_t> unit;
  };
  using Moment = std::chrono::steady_clock::time_point;

  BlobStore(const BlobStoreOptions& options, StoreFolder folder,
            const DatabaseOptions& database_options, std::unique_ptr<Database> database);
  Result<UnitLedger> load_ledger();
  Result<void> read(const BlobKey& key, std::vector<uint8_t>& unit) const;
  void forget(const BlobKey& key);
  bool is_queued(const BlobKey& key) const;

  // The writing thread.
  void run();
  std::optional<Queued> next(std::unique_lock<std::mutex>& lock);
  void write(const Queued& queued);
  void erase_forgotten();
  bool make_room(int64_t bytes);
  void measure();
  void collect();
  Result<void> sync_now();
  void note_durable();
  bool can_write();
  Result<void> reopen();
  void note_failure(const Error& error);

  const BlobStoreOptions options_;
  const int64_t write_buffer_bytes_;
  const int64_t live_max_;  // bytes of units, so that garbage and logs fit beside them
  const StoreFolder folder_;
  const DatabaseOptions database_options_;

  // Readers share it; the writer takes it alone to open the database anew.
  mutable std::shared_mutex database_mutex_;
  std::unique_ptr<Database> database_;  // null: could not be opened anew

  mutable std::mutex mutex_;
  std::condition_variable wake_writer_;
  std::condition_variable synced_;
  UnitLedger ledger_;
  std::vector<Queued> queue_;  // a ring
  size_t queue_begin_ = 0;
  size_t queue_len_ = 0;
  std::vector<std::vector<uint8_t>> buffers_;  // free ones
  std::vector<BlobKey> forgotten_;             // no longer in the ledger, still on disk
  std::optional<BlobKey> writing_;
  uint64_t sync_wanted_ = 0;  // counts calls of sync()
  uint64_t sync_done_ = 0;
  Result<void> sync_result_;
  bool stop_ = false;
  BlobStoreStats stats_;

  // Writing thread only.
  int64_t disk_bytes_ = 0;  // measured, and what was written since
  int64_t since_measured_ = 0;
  bool is_dirty_ = false;     // something is written and not durable
  bool must_reopen_ = false;  // a write has failed
  Moment next_sync_;
  Moment off_until_;

  std::thread writer_;  // last: it uses everything above
};

}  // namespace yeoul
