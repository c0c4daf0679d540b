#include "model/engram_row_cache.h"

#include <algorithm>
#include <bit>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

constexpr size_t kWays = 8;              // places of a set
constexpr int64_t kUsesPerHalving = 10;  // for each place
// Rows that are not kept are counted too: up to this many counters a place, a power of two in all.
constexpr size_t kCountersPerPlace = 8;

}  // namespace

EngramRowCache::EngramRowCache(int64_t num_places) {
  keys_.assign(static_cast<size_t>(num_places) / kWays * kWays, kEmpty);
  if (!keys_.empty()) counters_.resize(std::bit_floor(keys_.size() * kCountersPerPlace));
}

int64_t EngramRowCache::bytes_per_place() {
  return sizeof(uint64_t) + kCountersPerPlace;
}

size_t EngramRowCache::first_of_set(uint64_t key) const {
  return mix64(key) % (keys_.size() / kWays) * kWays;
}

uint8_t& EngramRowCache::counter(uint64_t key, uint64_t salt) {
  return counters_[mix64(key ^ salt) & (counters_.size() - 1)];
}

// Two rows may share a counter, hardly both of them.
int32_t EngramRowCache::uses(uint64_t key) {
  return std::min(counter(key, 0x51), counter(key, 0xA7));
}

void EngramRowCache::count(uint64_t key) {
  for (const uint64_t salt : {0x51, 0xA7}) {
    uint8_t& uses_of_key = counter(key, salt);
    if (uses_of_key < 255) ++uses_of_key;
  }
  if (++num_counted_ < kUsesPerHalving * num_places()) return;
  num_counted_ = 0;
  for (uint8_t& uses_of_key : counters_) uses_of_key /= 2;
}

std::optional<int64_t> EngramRowCache::find(uint64_t key) {
  if (keys_.empty()) return std::nullopt;
  count(key);
  const size_t first = first_of_set(key);
  for (size_t at = first; at < first + kWays; ++at) {
    if (keys_[at] == key) return static_cast<int64_t>(at);
  }
  return std::nullopt;
}

std::optional<int64_t> EngramRowCache::admit(uint64_t key) {
  if (keys_.empty()) return std::nullopt;
  const size_t first = first_of_set(key);
  size_t victim = first;
  int32_t victim_uses = 256;
  for (size_t at = first; at < first + kWays; ++at) {
    const int32_t uses_of_row = keys_[at] == kEmpty ? -1 : uses(keys_[at]);
    if (uses_of_row >= victim_uses) continue;
    victim_uses = uses_of_row;
    victim = at;
  }
  if (uses(key) <= victim_uses) return std::nullopt;
  keys_[victim] = key;
  return static_cast<int64_t>(victim);
}

}  // namespace yeoul
