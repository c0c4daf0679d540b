#include "store/database.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <spdlog/spdlog.h>

#include <array>
#include <cstring>

namespace yeoul {

namespace {

// Keys of RocksDB: the kind of value, then the unit's key, most significant byte first.
constexpr char kRecord = 'r';
constexpr char kBlob = 'b';
constexpr size_t kKeyBytes = 17;
using StoredKey = std::array<char, kKeyBytes>;

constexpr uint64_t kKeyCacheBytes = 8 << 20;
constexpr uint64_t kLogFileBytes = 1 << 20;
constexpr uint64_t kManifestBytes = 64 << 10;
constexpr uint64_t kSmallestBlob = 4 << 10;  // what is less stays beside its key
constexpr uint64_t kSmoothBytes = 1 << 20;   // written back in pieces, not all at a sync

StoredKey stored_key(char kind, const BlobKey& key) {
  StoredKey stored;
  stored[0] = kind;
  for (size_t i = 0; i < 8; ++i) {
    stored[1 + i] = static_cast<char>(key.high >> (56 - 8 * i));
    stored[9 + i] = static_cast<char>(key.low >> (56 - 8 * i));
  }
  return stored;
}

BlobKey key_of(const rocksdb::Slice& stored) {
  BlobKey key;
  for (size_t i = 0; i < 8; ++i) {
    key.high = key.high << 8 | static_cast<uint8_t>(stored[1 + i]);
    key.low = key.low << 8 | static_cast<uint8_t>(stored[9 + i]);
  }
  return key;
}

rocksdb::Slice slice(const StoredKey& key) {
  return {key.data(), key.size()};
}

rocksdb::Slice slice(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ErrorCode code_of(const rocksdb::Status& status) {
  if (status.IsNotFound()) return ErrorCode::kNotFound;
  if (status.IsCorruption()) return ErrorCode::kCorrupt;
  if (status.IsNoSpace()) return ErrorCode::kResourceExhausted;
  if (status.IsIOError() || status.IsBusy() || status.IsShutdownInProgress())
    return ErrorCode::kUnavailable;
  return ErrorCode::kInternal;
}

Result<void> result_of(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return {};
  return fail(code_of(status), fmt::format("store: {}: {}", what, status.ToString()));
}

rocksdb::Options database_options(const DatabaseOptions& wanted) {
  rocksdb::Options options;
  if (wanted.env != nullptr) options.env = wanted.env;
  options.create_if_missing = true;
  options.paranoid_checks = true;
  options.compression = rocksdb::kNoCompression;  // codes of FP4 and FP8 do not shrink
  options.write_buffer_size = static_cast<size_t>(wanted.write_buffer_bytes);
  options.max_write_buffer_number = 3;
  options.max_total_wal_size = static_cast<uint64_t>(2 * wanted.write_buffer_bytes);
  options.enable_blob_files = true;
  options.min_blob_size = kSmallestBlob;
  options.enable_blob_garbage_collection = false;  // only when the budget asks for it: compact()
  options.max_background_jobs = 2;
  options.max_open_files = 512;
  options.bytes_per_sync = kSmoothBytes;
  // A torn end of the log is where the store ends; everything before it is good.
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.max_bgerror_resume_count = 0;  // it is opened anew instead
  options.max_manifest_file_size = kLogFileBytes;
  options.manifest_preallocation_size = kManifestBytes;
  options.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  options.max_log_file_size = kLogFileBytes;
  options.keep_log_file_num = 2;
  options.stats_dump_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(kKeyCacheBytes);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

class Database::Files {
 public:
  explicit Files(rocksdb::DB* opened) : db(opened) {}
  std::unique_ptr<rocksdb::DB> db;
};

Database::Database(std::unique_ptr<Files> files) : files_(std::move(files)) {}

Database::~Database() {
  if (const rocksdb::Status closed = files_->db->Close(); !closed.ok())
    spdlog::warn("store: closing: {}", closed.ToString());
}

Result<std::unique_ptr<Database>> Database::open(const DatabaseOptions& options) {
  rocksdb::DB* db = nullptr;
  TRY(result_of(rocksdb::DB::Open(database_options(options), options.folder, &db),
                options.folder.c_str()));
  return std::unique_ptr<Database>(new Database(std::make_unique<Files>(db)));
}

Result<void> Database::put(const BlobKey& key, std::string_view record,
                           std::span<const uint8_t> blob_head, std::span<const uint8_t> blob) {
  const StoredKey record_key = stored_key(kRecord, key);
  const StoredKey blob_key = stored_key(kBlob, key);
  const rocksdb::Slice key_part = slice(blob_key);
  const std::array<rocksdb::Slice, 2> parts = {slice(blob_head), slice(blob)};
  rocksdb::WriteBatch batch;
  rocksdb::Status status = batch.Put(rocksdb::SliceParts(&key_part, 1),
                                     rocksdb::SliceParts(parts.data(), int{parts.size()}));
  if (status.ok()) status = batch.Put(slice(record_key), rocksdb::Slice(record));
  if (status.ok()) status = files_->db->Write(rocksdb::WriteOptions(), &batch);
  return result_of(status, "writing a unit");
}

Result<void> Database::put_records(std::span<const std::pair<BlobKey, std::string>> records) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const auto& [key, record] : records)
    if (status.ok()) status = batch.Put(slice(stored_key(kRecord, key)), rocksdb::Slice(record));
  if (status.ok()) status = files_->db->Write(rocksdb::WriteOptions(), &batch);
  return result_of(status, "writing records");
}

Result<void> Database::erase(std::span<const BlobKey> keys) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status;
  for (const BlobKey& key : keys) {
    if (status.ok()) status = batch.Delete(slice(stored_key(kRecord, key)));
    if (status.ok()) status = batch.Delete(slice(stored_key(kBlob, key)));
  }
  if (status.ok()) status = files_->db->Write(rocksdb::WriteOptions(), &batch);
  return result_of(status, "erasing units");
}

Result<void> Database::get(const BlobKey& key, const BlobBody& body) const {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  rocksdb::PinnableSlice value;
  const StoredKey blob_key = stored_key(kBlob, key);
  TRY(result_of(
      files_->db->Get(options, files_->db->DefaultColumnFamily(), slice(blob_key), &value),
      "reading a unit"));
  return body({reinterpret_cast<const uint8_t*>(value.data()), value.size()});
}

Result<void> Database::for_each_record(const RecordBody& body) const {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> at(files_->db->NewIterator(options));
  const char first = kRecord;
  for (at->Seek(rocksdb::Slice(&first, 1)); at->Valid(); at->Next())
    if (at->key().size() == kKeyBytes && at->key()[0] == kRecord)
      body(key_of(at->key()), at->value().ToStringView());
  return result_of(at->status(), "reading the records");
}

Result<void> Database::sync() {
  return result_of(files_->db->SyncWAL(), "syncing the log");
}

Result<void> Database::flush() {
  return result_of(files_->db->Flush(rocksdb::FlushOptions()), "writing out what is in memory");
}

Result<void> Database::compact(double share) {
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  options.blob_garbage_collection_policy = share > 0
                                               ? rocksdb::BlobGarbageCollectionPolicy::kForce
                                               : rocksdb::BlobGarbageCollectionPolicy::kDisable;
  options.blob_garbage_collection_age_cutoff = share;
  return result_of(files_->db->CompactRange(options, nullptr, nullptr), "compacting");
}

int64_t Database::num_blob_files() const {
  uint64_t count = 0;
  files_->db->GetIntProperty("rocksdb.num-blob-files", &count);
  return static_cast<int64_t>(count);
}

}  // namespace yeoul
