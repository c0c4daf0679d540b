#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace yeoul::cpu {

// Zeroed memory of a fixed number of plain values on a cache line, so that no vector load crosses
// one.
template <typename T>
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  ~AlignedBuffer() { release(); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  AlignedBuffer(AlignedBuffer&& other) noexcept : values_(other.values_), size_(other.size_) {
    other.values_ = nullptr;
    other.size_ = 0;
  }
  AlignedBuffer& operator=(AlignedBuffer&&) = delete;

  // What was there before is lost.
  void resize(size_t size) {
    release();
    values_ = new (std::align_val_t{64}) T[size]{};
    size_ = size;
  }
  T* data() { return values_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return values_[i]; }

 private:
  void release() { ::operator delete[](values_, std::align_val_t{64}); }

  T* values_ = nullptr;
  size_t size_ = 0;
};

}  // namespace yeoul::cpu
