#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/counter_rng.h"
#include "support/model_harness.h"

namespace yeoul::parity {

// Models small enough to run hundreds of tokens in many ways.
struct TestModel {
  const char* name;
  ModelHarness::Options options;
};

TestModel tiny_model();        // the embedded checkpoint: window 16, at most 24 keys a row
TestModel random_model();      // random weights: window 64 and 64 selected rows, two slot blocks
TestModel straddling_model();  // window 96 and 80 selected rows: a slot block holds both kinds

// Sanitizers slow the loops by an order of magnitude: they get a part of each matrix, most of it on
// the tiny model.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kReduced = true;
#else
inline constexpr bool kReduced = false;
#endif

inline std::vector<TestModel (*)()> models_for_all() {
  if (kReduced) return {tiny_model};
  return {tiny_model, random_model};
}

using Logits = std::vector<float>;

inline bool same_bits(const Logits& a, const Logits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Index of the first row that differs, or -1.
inline int64_t first_difference(const std::vector<Logits>& a, const std::vector<Logits>& b) {
  if (a.size() != b.size()) return 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

// Text tokens drawn from a seed.
std::vector<TokenId> random_tokens(const ModelConfig& config, uint64_t seed, size_t count);

// Small integers in [0, bound), one after another, from a seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : seed_(seed) {}
  size_t below(size_t bound) { return counter_bits(seed_, ++count_) % bound; }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

// Prompt and greedy continuation of a sequence that runs alone: what every other way of computing
// it must reproduce.
struct AloneRun {
  std::vector<TokenId> tokens;  // prompt, then continuation
  std::vector<Logits> logits;   // one row for each token
};
AloneRun run_alone(const TestModel& model, std::vector<TokenId> prompt, size_t continuation);

}  // namespace yeoul::parity
