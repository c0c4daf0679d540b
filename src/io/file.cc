#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/read_fully.h"

namespace yeoul {
namespace {

std::string describe(int error) {
  return std::generic_category().message(error);
}

}  // namespace

Result<File> File::open(const std::string& path) {
  // O_NONBLOCK keeps a FIFO in the place of a shard from blocking; regular files ignore it.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    return fail(error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                fmt::format("{}: cannot open: {}", path, describe(error)));
  }
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor);
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: not a regular file", path));
  }
  return File(path, descriptor, static_cast<uint64_t>(status.st_size));
}

File::File(std::string path, int descriptor, uint64_t size)
    : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> File::read_at(uint64_t offset, std::span<std::byte> into) const {
  if (offset > size_ || into.size() > size_ - offset) {
    return fail(
        ErrorCode::kUnavailable,
        fmt::format("{}: read at offset {}: {} bytes expected, {} found (file size {})", path_,
                    offset, into.size(), offset > size_ ? 0 : size_ - offset, size_));
  }
  const auto pread_once = [this](void* buffer, size_t count, off_t position) {
    return ::pread(descriptor_, buffer, count, position);
  };
  const ReadOutcome outcome = read_fully(pread_once, offset, into);
  if (outcome.num_bytes == into.size()) return {};
  return fail(ErrorCode::kUnavailable,
              fmt::format("{}: read at offset {}: {} bytes expected, {} found ({})", path_, offset,
                          into.size(), outcome.num_bytes,
                          outcome.error != 0 ? describe(outcome.error) : "the file was shortened"));
}

}  // namespace yeoul
