#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "store/blob_key.h"

namespace rocksdb {
class Env;
}

namespace yeoul {

struct DatabaseOptions {
  std::string folder;
  int64_t write_buffer_bytes = 0;  // held in memory before a file is written; three at most
  rocksdb::Env* env = nullptr;     // the files below; null: those of the machine. Borrowed.
};

// Records and blobs by key in RocksDB: the one place that knows it. Values of two kinds share one
// keyspace and are written together; blobs lie in files of their own that are written once. After a
// failed write it can still be read, but not written until it is opened anew.
// Internally synchronized. Error codes: kCorrupt, kResourceExhausted (no space), kUnavailable
// (reading or writing failed), kNotFound.
class Database {
 public:
  static Result<std::unique_ptr<Database>> open(const DatabaseOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Both or neither. Durable after the next sync() that succeeds. The blob is given in two parts.
  Result<void> put(const BlobKey& key, std::string_view record, std::span<const uint8_t> blob_head,
                   std::span<const uint8_t> blob);
  Result<void> put_records(std::span<const std::pair<BlobKey, std::string>> records);
  Result<void> erase(std::span<const BlobKey> keys);

  // `body` sees the blob while the call lasts.
  using BlobBody = std::function<Result<void>(std::span<const uint8_t> blob)>;
  Result<void> get(const BlobKey& key, const BlobBody& body) const;
  using RecordBody = std::function<void(const BlobKey& key, std::string_view record)>;
  Result<void> for_each_record(const RecordBody& body) const;

  Result<void> sync();
  // What is in memory goes to files, and so becomes durable without the log.
  Result<void> flush();
  // Rewrites the keys, so that blob files without a live blob leave the disk; moves the live blobs
  // out of the oldest `share` (0 to 1) of the blob files, so that those leave it too.
  Result<void> compact(double share);
  int64_t num_blob_files() const;

 private:
  class Files;
  explicit Database(std::unique_ptr<Files> files);
  const std::unique_ptr<Files> files_;
};

}  // namespace yeoul
