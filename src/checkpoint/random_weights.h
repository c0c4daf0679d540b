#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/expected_tensors.h"

namespace yeoul {

// Weights of a model that has learnt nothing, scaled so that activations keep their size through
// the layers, attention and routing are neither flat nor one-sided, and the logits are well spread:
// what takes the real model's time on any machine, and a model whose every row is different.
//
// Every value is a function of (seed, tensor name, index): equal on every machine and for every cut
// into pieces. Immutable; any number of threads.
class RandomWeights {
 public:
  explicit RandomWeights(uint64_t seed) : seed_(seed) {}

  // The stored bytes of `tensor` from `offset` on, a multiple of 8.
  void fill(const ExpectedTensor& tensor, uint64_t offset, std::span<std::byte> into) const;

 private:
  uint64_t seed_;
};

}  // namespace yeoul
