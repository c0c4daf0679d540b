#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace yeoul {

// The folder of a store, held by one process at a time. The lock goes with the object, and with the
// process.
class StoreFolder {
 public:
  // Makes the folder and its marker if they are not there. kInvalidArgument when it holds something
  // else, kUnavailable when another process has it, kUnsupported when a newer program wrote it,
  // kCorrupt when the marker is damaged.
  static Result<StoreFolder> claim(const std::string& path);
  StoreFolder(StoreFolder&& other) noexcept;
  StoreFolder& operator=(StoreFolder&&) = delete;
  ~StoreFolder();

  const std::string& path() const { return path_; }
  // Where RocksDB's files lie.
  std::string database_path() const;
  // Whether bytes can be written here at all.
  Result<void> try_writing() const;
  // Bytes of disk that everything in it takes now.
  int64_t num_bytes() const;

 private:
  StoreFolder(std::string path, int lock);
  std::string path_;
  int lock_ = -1;
};

}  // namespace yeoul
