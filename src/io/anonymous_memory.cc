#include "io/anonymous_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace yeoul {

Result<AnonymousMemory> AnonymousMemory::reserve(uint64_t num_bytes) {
  if (num_bytes == 0) return AnonymousMemory();
  void* memory = ::mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} bytes of memory: {}", num_bytes, std::strerror(errno)));
  }
  return AnonymousMemory(static_cast<std::byte*>(memory), num_bytes);
}

AnonymousMemory::AnonymousMemory(AnonymousMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

AnonymousMemory& AnonymousMemory::operator=(AnonymousMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

AnonymousMemory::~AnonymousMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace yeoul
