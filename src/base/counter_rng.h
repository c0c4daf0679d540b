#pragma once

#include <cstdint>

namespace yeoul {

// Counter-based randomness: a value depends on its coordinates and on nothing else, so a sample
// does not depend on who shares the batch, on drafting or on the number of threads.

// The SplitMix64 finaliser (Steele, Lea, Flood 2014): a bijection of 64-bit words.
constexpr uint64_t mix64(uint64_t z) {
  z += 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Key of one (seed, choice index, position); combine with a token id by counter_bits.
constexpr uint64_t counter_key(uint64_t seed, uint64_t choice, uint64_t position) {
  return mix64(mix64(mix64(seed) ^ choice) ^ position);
}

constexpr uint64_t counter_bits(uint64_t key, uint64_t index) {
  return mix64(key ^ mix64(index));
}

// Uniform in (0, 1), never 0 or 1: 52 random bits and a half.
constexpr double unit_interval(uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52;
}

}  // namespace yeoul
