#include "store/store_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "store/unit_format.h"

namespace yeoul {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "LOCK";
constexpr const char* kMarkerName = "YEOUL_STORE";
constexpr const char* kNewMarkerName = "YEOUL_STORE.new";
constexpr const char* kTriedName = "TRY";
constexpr const char* kDatabaseName = "units";

std::string at(const std::string& folder, const char* name) {
  return folder + "/" + name;
}

tl::unexpected<Error> failed(const std::string& what, int error) {
  const ErrorCode code = error == ENOSPC ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable;
  return fail(code, fmt::format("store: {}: {}", what, std::strerror(error)));
}

Result<void> write_all(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return failed(path, errno);
  const bool written = ::write(file, text.data(), text.size()) == std::ssize(text);
  const bool synced = written && ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  if (!synced) return failed(path, error);
  return {};
}

Result<void> sync_folder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return failed(path, errno);
  const bool synced = ::fsync(folder) == 0;
  const int error = errno;
  ::close(folder);
  if (!synced) return failed(path, error);
  return {};
}

// nullopt: there is none.
Result<std::optional<std::string>> read_marker(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno == ENOENT) return std::optional<std::string>();
  if (file < 0) return failed(path, errno);
  std::array<char, 256> text;
  const ssize_t size = ::read(file, text.data(), text.size());
  const int error = errno;
  ::close(file);
  if (size < 0) return failed(path, error);
  return std::string(text.data(), static_cast<size_t>(size));
}

// The marker comes first and at once, so that nothing is ever a store without one.
Result<void> make_marker(const std::string& folder) {
  TRY(write_all(at(folder, kNewMarkerName), format_marker()));
  if (::rename(at(folder, kNewMarkerName).c_str(), at(folder, kMarkerName).c_str()) != 0)
    return failed(folder, errno);
  return sync_folder(folder);
}

Result<void> expect_empty(const std::string& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name != kLockName && name != kNewMarkerName)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("store: {}: a store or an empty folder expected, \"{}\" found",
                              folder, name));
  }
  if (error) return failed(folder, error.value());
  return {};
}

Result<int> lock_folder(const std::string& folder) {
  const std::string path = at(folder, kLockName);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return failed(path, errno);
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return file;
  const int error = errno;
  ::close(file);
  if (error != EWOULDBLOCK) return failed(path, error);
  return fail(ErrorCode::kUnavailable,
              fmt::format("store: {} is in use by another process; a folder serves one", folder));
}

}  // namespace

StoreFolder::StoreFolder(std::string path, int lock) : path_(std::move(path)), lock_(lock) {}

StoreFolder::StoreFolder(StoreFolder&& other) noexcept
    : path_(std::move(other.path_)), lock_(std::exchange(other.lock_, -1)) {}

StoreFolder::~StoreFolder() {
  if (lock_ >= 0) ::close(lock_);
}

Result<StoreFolder> StoreFolder::claim(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return failed(path, error.value());
  // Before the lock, so that a folder of something else is left exactly as it was.
  const std::string marker_path = at(path, kMarkerName);
  TRY_ASSIGN(std::optional<std::string> marker, read_marker(marker_path));
  if (!marker) TRY(expect_empty(path));
  TRY_ASSIGN(const int lock, lock_folder(path));
  StoreFolder folder(path, lock);
  TRY_ASSIGN(marker, read_marker(marker_path));  // another process may just have made it
  if (!marker) {
    TRY(expect_empty(path));
    TRY(make_marker(path));
  } else {
    TRY(parse_marker(*marker));
  }
  fs::create_directories(folder.database_path(), error);
  if (error) return failed(folder.database_path(), error.value());
  return folder;
}

std::string StoreFolder::database_path() const {
  return at(path_, kDatabaseName);
}

Result<void> StoreFolder::try_writing() const {
  constexpr size_t kTriedBytes = 1 << 20;  // what opening the database may need
  const std::string path = at(path_, kTriedName);
  const Result<void> written = write_all(path, std::string(kTriedBytes, '\0'));
  ::unlink(path.c_str());
  return written;
}

int64_t StoreFolder::num_bytes() const {
  constexpr int64_t kBlockBytes = 512;  // the unit of st_blocks, whatever the file system's own
  int64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path_, error), end; entry != end && !error;
       entry.increment(error)) {
    struct stat file = {};  // a file may leave while it is looked at
    if (::stat(entry->path().c_str(), &file) == 0 && S_ISREG(file.st_mode))
      sum += int64_t{file.st_blocks} * kBlockBytes;
  }
  return sum;
}

}  // namespace yeoul
