#pragma once

#include <rocksdb/file_system.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/counter_rng.h"

namespace yeoul {

// Random numbers of one test case.
class CaseRng {
 public:
  explicit CaseRng(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t bound) { return mix64(mix64(seed_) ^ count_++) % bound; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// Files of the machine that remember what has been synced. At a chosen operation the power goes:
// every later operation fails, and lose_unsynced() leaves the folder as a disk might be found: of
// each file what was synced and a part of the rest, perhaps with zeros in it; of the folder's
// entries those that were synced and some of the later ones, in their order. Or operations fail
// for a while, as on a full or broken disk. Counted are the operations that change something.
// Internally synchronized.
class FaultFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  // trash: an empty folder on the same file system, for what was removed and may come back.
  explicit FaultFileSystem(std::string trash);
  static const char* kClassName() { return "FaultFileSystem"; }
  const char* Name() const override { return kClassName(); }

  void cut_power_at(uint64_t operation);
  void cut_power_now();
  bool is_cut() const;
  uint64_t num_operations() const;
  // Operations [begin, end) fail with `status`.
  void fail_between(uint64_t begin, uint64_t end, rocksdb::IOStatus status);
  // From now on a sync succeeds and does nothing.
  void forget_syncs();
  // After the last file is closed.
  void lose_unsynced(CaseRng& rng);

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus NewDirectory(const std::string& path, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* folder,
                                 rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus DeleteFile(const std::string& path, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override;

  // What the files and folders it hands out report. Each counts as one operation.
  rocksdb::IOStatus operate();
  void note_length(const std::string& path, uint64_t length);
  void note_synced(const std::string& path);
  void note_folder_synced();

 private:
  struct FileLength {
    uint64_t written = 0;
    uint64_t synced = 0;
  };
  // A change of the folder that is not durable yet. `kept`: where the old file of that name is.
  struct EntryChange {
    std::string path;
    std::string renamed_from;  // empty: made or removed
    std::string kept;          // empty: there was none
    FileLength kept_length;
  };

  std::string keep(const std::string& path);  // moves it to the trash
  void undo(const EntryChange& change);
  void record(EntryChange change);

  mutable std::mutex mutex_;
  const std::string trash_;
  uint64_t num_operations_ = 0;
  uint64_t cut_at_ = UINT64_MAX;
  uint64_t fail_begin_ = UINT64_MAX;
  uint64_t fail_end_ = UINT64_MAX;
  rocksdb::IOStatus failure_;
  uint64_t num_kept_ = 0;
  bool forgets_syncs_ = false;
  std::map<std::string, FileLength> files_;
  std::vector<EntryChange> changes_;
};

}  // namespace yeoul
