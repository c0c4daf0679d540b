#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace yeoul {

// A file open for reading by position. Immutable after construction; reads from any thread.
class File {
 public:
  static Result<File> open(const std::string& path);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  // Fills `into` completely or fails: kUnavailable with path, offset, bytes expected and found.
  Result<void> read_at(uint64_t offset, std::span<std::byte> into) const;

 private:
  File(std::string path, int descriptor, uint64_t size);
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

// One read of a batch. `ok` tells whether `into` was filled completely.
struct ReadRequest {
  const File* file = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> into;
  bool ok = false;
};

// Many small reads at once, over a few threads of its own. Each request has its own outcome; a
// failed one does not disturb the others. Thread-confined; read() does not allocate after the first
// call of a size.
class BatchReader {
 public:
  explicit BatchReader(int num_threads);
  ~BatchReader();
  BatchReader(const BatchReader&) = delete;
  BatchReader& operator=(const BatchReader&) = delete;

  // Blocks until every request has been tried.
  void read(std::span<ReadRequest> requests);

 private:
  class Pool;
  Pool* pool_;
};

}  // namespace yeoul
