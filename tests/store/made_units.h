#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/counter_rng.h"
#include "store/blob_store.h"

namespace yeoul {

// Units whose bytes follow from their number, so that any of them can be checked after any history.

constexpr size_t kMadeNoteBytes = 16;
constexpr size_t kMadeUnitBytesMax = 24 << 10;

inline BlobKey made_key(uint64_t number) {
  return {mix64(number), mix64(~number)};
}

// The note holds the number. Small units (beside their key) and large ones (in blob files).
inline void make_unit(uint64_t number, std::vector<uint8_t>& unit) {
  const uint64_t key = mix64(number ^ 0x756e6974);
  const size_t max = key % 4 == 0 ? 2 << 10 : kMadeUnitBytesMax;
  unit.resize(kMadeNoteBytes + mix64(key) % (max - kMadeNoteBytes));
  for (size_t i = 0; i < unit.size(); i += 8) {
    const uint64_t word = counter_bits(key, i);
    std::memcpy(unit.data() + i, &word, std::min<size_t>(8, unit.size() - i));
  }
  std::memcpy(unit.data(), &number, sizeof(number));
}

inline uint64_t number_of(const uint8_t* unit) {
  uint64_t number = 0;
  std::memcpy(&number, unit, sizeof(number));
  return number;
}

// Waits while the queue is full, so that no unit is dropped.
inline void put_made(BlobStore& store, uint64_t number) {
  std::optional<std::vector<uint8_t>> buffer;
  while (!(buffer = store.try_buffer())) std::this_thread::yield();
  make_unit(number, *buffer);
  store.put(made_key(number), kMadeNoteBytes, std::move(*buffer));
}

// Whether the unit that the store has under `number` is the right one, to the last byte.
inline bool has_made(BlobStore& store, uint64_t number, std::vector<uint8_t>& scratch) {
  if (!store.get(made_key(number), scratch)) return false;
  std::vector<uint8_t> expected;
  make_unit(number, expected);
  return scratch == expected;
}

}  // namespace yeoul
