#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "base/counter_rng.h"

namespace yeoul {

// Names a unit of the store. Its maker derives it from everything the unit means, so
// that of two units with one key either will do.
struct BlobKey {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const BlobKey&, const BlobKey&) = default;
};

struct BlobKeyHash {
  size_t operator()(const BlobKey& key) const {
    return static_cast<size_t>(mix64(key.high) ^ key.low);
  }
};

}  // namespace yeoul
