#pragma once

#include <cstdint>

namespace yeoul::simulation {

// Replaces the global operator new of the program that links counting_new.cc.

// Allocations of this thread since it began.
int64_t num_allocations();
// Their bytes, those freed since included.
int64_t bytes_allocated();

// While it lives, an allocation of this thread of at least `bytes` fails with std::bad_alloc.
class FailingAllocations {
 public:
  explicit FailingAllocations(uint64_t bytes);
  ~FailingAllocations();
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;
};

}  // namespace yeoul::simulation
