#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "cache/page_pool.h"
#include "cache/page_table.h"
#include "cache/prefix_index.h"
#include "engine/disk_stats.h"
#include "engine/executor.h"
#include "engine/prefix_unit.h"
#include "engine/unit_reader.h"
#include "store/blob_store.h"

namespace yeoul {

// What a restore came to.
struct RestoreEnd {
  uint64_t request_id = 0;  // that it was begun for
  int64_t length = 0;       // tokens of the state that is in memory now; 0: none came
};

// Prefixes on disk: writes behind what the index keeps, and brings back what a prompt can go on
// from, as another state of the index. Neither waits for the disk: units are handed to the store's
// thread and taken from a reading thread between steps. One state is brought back at a time.
// Thread-confined to the engine thread; borrows index, pool and executor.
class DiskTier {
 public:
  // What it shares with the engine.
  struct House {
    PagePool& pool;
    PrefixIndex& index;
    Executor& executor;
  };
  // `store` is open for units of unit_bytes_max(); notify: any thread, something has arrived.
  DiskTier(const House& house, std::unique_ptr<BlobStore> store, std::function<void()> notify);

  static int64_t unit_bytes_max(const StateUnits& units, const ModelShape& shape);
  static BlobStoreOptions store_options(const DiskTierOptions& options, int64_t unit_bytes_max);
  // A store for the states of this executor. kUnsupported when it keeps none; else as BlobStore.
  static Result<std::unique_ptr<BlobStore>> open_store(const DiskTierOptions& options,
                                                       const Executor& executor);
  // Buffers of the store, the reader and the tokens of one prompt.
  static int64_t memory_bytes(const DiskTierOptions& options, int64_t unit_bytes_max,
                              int64_t context_max);

  // The index keeps a new state; it is written when its turn comes, if it is still there.
  void note_kept(int32_t snapshot, uint64_t salt) noexcept;
  // Writes a few units. False when nothing is left to write.
  bool write_behind();

  // Whether the prompt should wait: for a state worth bringing back that this call begins to read,
  // or for the restore under way, which brings what this prompt wants or has to end before its own
  // can begin.
  enum class Start : uint8_t { kNothing, kBegun, kUnderWay };
  struct Wish {
    uint64_t request_id = 0;
    uint64_t salt = 0;
    std::span<const TokenId> prompt;
    bool may_begin = true;       // or only wait for what is under way
    double seconds_a_token = 0;  // of computing them; 0: not known, so that fetching is right
  };
  Start begin_restore(const Wish& wish);
  // Takes what has been read, until that was `bytes_max` bytes. A value when a restore has ended.
  static constexpr int64_t kBytesATurn = int64_t{16} << 20;
  std::optional<RestoreEnd> advance(int64_t bytes_max = kBytesATurn);
  // advance() would do something now.
  bool is_ready() const { return restore_ && (restore_->is_dropped || reader_.front() != nullptr); }
  // Gives the pages of the restore under way back; it ends with nothing. False when there is none.
  bool drop_restore();
  // Pages that no sequence and no state of the index holds.
  const PageTable& pages() const { return pages_; }

  DiskTierStats stats() const;
  BlobStoreStats store_stats() const { return store_->stats(); }  // any thread

 private:
  struct Kept {
    uint64_t salt = 0;
    uint64_t serial = 0;  // differs between two states under one number
    bool is_queued = false;
  };
  struct Write {
    int32_t snapshot = 0;
    uint64_t serial = 0;
    BlobKey root;
    int64_t length = 0;
    int64_t pages_left = 0;
    bool is_state_done = false;
  };
  struct Restore {
    RestoreEnd end;
    uint64_t salt = 0;
    BlobKey root;
    int64_t length = 0;
    bool is_dropped = false;
    std::chrono::steady_clock::time_point began;
  };

  int64_t full_pages(int64_t length) const { return length / tokens_per_page_; }
  int64_t find(const BlobKey& root, std::span<const TokenId> prompt);
  bool serves(const BlobKey& state_key, int64_t length, int64_t prompt_len);
  double fetch_seconds(int64_t num_pages) const;
  bool is_worth_it(const Wish& wish, int64_t length, int64_t known);
  void touch_all();
  bool begin_write();
  bool is_still_kept(const Write& write) const;
  bool write_page(const Write& write, int64_t page);
  bool write_state(const Write& write);
  std::span<const uint64_t> tokens_of(int32_t snapshot, int64_t begin, int64_t end);
  Result<void> take(const UnitReader::Unit& unit);
  Result<void> take_page(std::span<const uint8_t> unit);
  Result<void> take_state(std::span<const uint8_t> unit);
  Result<int32_t> new_page();
  RestoreEnd end_restore(bool is_there);

  PagePool& pool_;
  PrefixIndex& index_;
  Executor& executor_;
  const ModelShape shape_;
  const StateUnits units_;
  const int64_t tokens_per_page_;
  const std::unique_ptr<BlobStore> store_;
  UnitReader reader_;

  std::vector<bool> length_seen_;      // by length: a state of it was on disk once
  StateNote note_;                     // scratch
  std::vector<uint8_t> note_bytes_;    // scratch
  std::vector<uint64_t> page_tokens_;  // scratch

  std::vector<Kept> kept_;        // by snapshot
  std::vector<int32_t> backlog_;  // a ring of snapshots to be written
  size_t backlog_begin_ = 0;
  size_t backlog_len_ = 0;
  uint64_t last_serial_ = 0;
  std::optional<Write> write_;
  std::vector<BlobKey> write_keys_;  // of its pages, then its state

  std::vector<BlobKey> found_keys_;  // scratch: of a state's pages, then its own
  std::optional<Restore> restore_;
  std::vector<TokenId> tokens_;        // of the state being restored
  std::vector<BlobKey> restore_keys_;  // of its pages, then its state
  PageTable pages_;
  DiskTierStats stats_;
};

}  // namespace yeoul
