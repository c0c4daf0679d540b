#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace yeoul {

// Zeroed memory of the process, page-aligned; the kernel provides it as it is touched, so a large
// reservation costs address space only. Movable; freed by the destructor.
class AnonymousMemory {
 public:
  AnonymousMemory() = default;
  // kResourceExhausted with the size and the cause.
  static Result<AnonymousMemory> reserve(uint64_t num_bytes);
  AnonymousMemory(AnonymousMemory&& other) noexcept;
  AnonymousMemory& operator=(AnonymousMemory&& other) noexcept;
  ~AnonymousMemory();

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  AnonymousMemory(std::byte* data, uint64_t size) : data_(data), size_(size) {}
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace yeoul
