#include "store/fault_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace yeoul {

namespace {

namespace fs = std::filesystem;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class FaultFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  FaultFile(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::string path, uint64_t length,
            FaultFileSystem& system)
      : FSWritableFileOwnerWrapper(std::move(file)),
        path_(std::move(path)),
        length_(length),
        system_(system) {}

  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  IODebugContext* debug) override {
    IOStatus status = system_.operate();
    if (status.ok()) status = FSWritableFileOwnerWrapper::Append(data, options, debug);
    if (status.ok()) system_.note_length(path_, length_ += data.size());
    return status;
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options,
                  const rocksdb::DataVerificationInfo&, IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = system_.operate();
    if (status.ok()) status = FSWritableFileOwnerWrapper::Truncate(size, options, debug);
    if (status.ok()) system_.note_length(path_, length_ = size);
    return status;
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = system_.operate();
    if (status.ok()) status = FSWritableFileOwnerWrapper::Sync(options, debug);
    if (status.ok()) system_.note_synced(path_);
    return status;
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    return Sync(options, debug);
  }

 private:
  const std::string path_;
  uint64_t length_;
  FaultFileSystem& system_;
};

class FaultFolder final : public rocksdb::FSDirectoryWrapper {
 public:
  FaultFolder(std::unique_ptr<rocksdb::FSDirectory>&& folder, FaultFileSystem& system)
      : FSDirectoryWrapper(std::move(folder)), system_(system) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
    IOStatus status = system_.operate();
    if (status.ok()) status = FSDirectoryWrapper::Fsync(options, debug);
    if (status.ok()) system_.note_folder_synced();
    return status;
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* debug,
                               const rocksdb::DirFsyncOptions&) override {
    return Fsync(options, debug);
  }

 private:
  FaultFileSystem& system_;
};

void write_zeros(const std::string& path, uint64_t begin, uint64_t end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(begin));
  const std::string zeros(end - begin, '\0');
  file.write(zeros.data(), static_cast<std::streamsize>(zeros.size()));
}

}  // namespace

FaultFileSystem::FaultFileSystem(std::string trash)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), trash_(std::move(trash)) {}

void FaultFileSystem::cut_power_at(uint64_t operation) {
  const std::lock_guard lock(mutex_);
  cut_at_ = operation;
}

void FaultFileSystem::cut_power_now() {
  const std::lock_guard lock(mutex_);
  cut_at_ = std::min(cut_at_, num_operations_);
}

bool FaultFileSystem::is_cut() const {
  const std::lock_guard lock(mutex_);
  return num_operations_ > cut_at_;
}

uint64_t FaultFileSystem::num_operations() const {
  const std::lock_guard lock(mutex_);
  return num_operations_;
}

void FaultFileSystem::fail_between(uint64_t begin, uint64_t end, IOStatus status) {
  const std::lock_guard lock(mutex_);
  fail_begin_ = begin;
  fail_end_ = end;
  failure_ = std::move(status);
}

void FaultFileSystem::forget_syncs() {
  const std::lock_guard lock(mutex_);
  forgets_syncs_ = true;
}

IOStatus FaultFileSystem::operate() {
  const std::lock_guard lock(mutex_);
  const uint64_t operation = num_operations_++;
  if (operation >= cut_at_) return IOStatus::IOError("the power is off");
  if (operation >= fail_begin_ && operation < fail_end_) return failure_;
  return IOStatus::OK();
}

void FaultFileSystem::note_length(const std::string& path, uint64_t length) {
  const std::lock_guard lock(mutex_);
  FileLength& file = files_[path];
  file.written = length;
  file.synced = std::min(file.synced, length);
}

void FaultFileSystem::note_synced(const std::string& path) {
  const std::lock_guard lock(mutex_);
  FileLength& file = files_[path];
  if (!forgets_syncs_) file.synced = file.written;
}

void FaultFileSystem::note_folder_synced() {
  const std::lock_guard lock(mutex_);
  if (!forgets_syncs_) changes_.clear();
}

std::string FaultFileSystem::keep(const std::string& path) {
  std::error_code error;
  const std::string kept = fmt::format("{}/{}", trash_, num_kept_++);
  fs::rename(path, kept, error);
  return error ? "" : kept;
}

void FaultFileSystem::record(EntryChange change) {
  if (const auto old = files_.find(change.path); old != files_.end() && !change.kept.empty())
    change.kept_length = old->second;
  files_.erase(change.path);
  changes_.push_back(std::move(change));
}

IOStatus FaultFileSystem::NewWritableFile(const std::string& path,
                                          const rocksdb::FileOptions& options,
                                          std::unique_ptr<rocksdb::FSWritableFile>* file,
                                          IODebugContext* debug) {
  if (IOStatus status = operate(); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    record({.path = path, .kept = keep(path)});
    files_[path] = {};
  }
  std::unique_ptr<rocksdb::FSWritableFile> real;
  IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &real, debug);
  if (status.ok()) *file = std::make_unique<FaultFile>(std::move(real), path, 0, *this);
  return status;
}

// Written on at its end.
IOStatus FaultFileSystem::ReopenWritableFile(const std::string& path,
                                             const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSWritableFile>* file,
                                             IODebugContext* debug) {
  if (IOStatus status = operate(); !status.ok()) return status;
  std::unique_ptr<rocksdb::FSWritableFile> real;
  IOStatus status = FileSystemWrapper::ReopenWritableFile(path, options, &real, debug);
  std::error_code error;
  const uint64_t length = fs::file_size(path, error);
  if (status.ok()) *file = std::make_unique<FaultFile>(std::move(real), path, length, *this);
  return status;
}

IOStatus FaultFileSystem::NewDirectory(const std::string& path, const IOOptions& options,
                                       std::unique_ptr<rocksdb::FSDirectory>* folder,
                                       IODebugContext* debug) {
  std::unique_ptr<rocksdb::FSDirectory> real;
  IOStatus status = FileSystemWrapper::NewDirectory(path, options, &real, debug);
  if (status.ok()) *folder = std::make_unique<FaultFolder>(std::move(real), *this);
  return status;
}

IOStatus FaultFileSystem::DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) {
  if (IOStatus status = operate(); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  std::string kept = keep(path);
  if (kept.empty()) return IOStatus::PathNotFound(path);
  record({.path = path, .kept = std::move(kept)});
  return IOStatus::OK();
}

IOStatus FaultFileSystem::RenameFile(const std::string& from, const std::string& to,
                                     const IOOptions& options, IODebugContext* debug) {
  if (IOStatus status = operate(); !status.ok()) return status;
  const std::lock_guard lock(mutex_);
  const FileLength length = files_[from];
  record({.path = to, .renamed_from = from, .kept = keep(to)});
  files_.erase(from);
  files_[to] = length;
  return FileSystemWrapper::RenameFile(from, to, options, debug);
}

void FaultFileSystem::undo(const EntryChange& change) {
  std::error_code error;
  if (!change.renamed_from.empty()) {
    fs::rename(change.path, change.renamed_from, error);
    files_[change.renamed_from] = files_[change.path];
  } else if (files_.contains(change.path)) {
    fs::remove(change.path, error);
  }
  files_.erase(change.path);
  if (change.kept.empty()) return;
  fs::rename(change.kept, change.path, error);
  files_[change.path] = change.kept_length;
}

void FaultFileSystem::lose_unsynced(CaseRng& rng) {
  const std::lock_guard lock(mutex_);
  const uint64_t num_lost = rng.below(changes_.size() + 1);
  for (uint64_t i = 0; i < num_lost; ++i) {
    undo(changes_.back());
    changes_.pop_back();
  }
  for (const auto& [path, length] : files_) {
    if (!fs::exists(path) || length.written == length.synced) continue;
    const uint64_t kept = length.synced + rng.below(length.written - length.synced + 1);
    std::error_code error;
    fs::resize_file(path, kept, error);
    // Not in the list of files: a file system that writes data before sizes leaves no zeros there.
    const bool is_list = fs::path(path).filename().string().starts_with("MANIFEST");
    if (kept > length.synced && !is_list && rng.below(3) == 0)
      write_zeros(path, length.synced + rng.below(kept - length.synced), kept);
  }
  files_.clear();
  changes_.clear();
}

}  // namespace yeoul
