#include "counting_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations = 0;
thread_local int64_t allocated_bytes = 0;
thread_local uint64_t failing_from_bytes = UINT64_MAX;

void* allocate(std::size_t size) {
  ++allocations;
  allocated_bytes += static_cast<int64_t>(size);
  void* memory = size >= failing_from_bytes ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The aligned forms are not replaced: nothing in the engine is over-aligned, and a call of one
// would go to the library's own.
void* operator new(std::size_t size) {
  return allocate(size);
}
void* operator new[](std::size_t size) {
  return allocate(size);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace yeoul::simulation {

int64_t num_allocations() {
  return allocations;
}

int64_t bytes_allocated() {
  return allocated_bytes;
}

FailingAllocations::FailingAllocations(uint64_t bytes) {
  failing_from_bytes = bytes;
}
FailingAllocations::~FailingAllocations() {
  failing_from_bytes = UINT64_MAX;
}

}  // namespace yeoul::simulation
