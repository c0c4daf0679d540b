#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"
#include "sampling/sampling_params.h"
#include "sampling/token_counts.h"

namespace yeoul {

// One row to draw from. Everything is borrowed for the call.
struct SampleInput {
  std::span<const float> logits;           // [V], as the model's head gave them
  const SamplingParams* params = nullptr;  // accepted by validate()
  int32_t choice = 0;
  int64_t position = 0;                 // of the drawn token in its sequence, prompt counted
  const TokenCounts* counts = nullptr;  // of the tokens before `position`; null: no penalties
  std::span<const uint64_t> allowed;    // bit i % 64 of word i / 64 is token i; empty: all
};

enum class SampleStatus : uint8_t {
  kOk,
  kNonFinite,       // a logit is NaN or infinite
  kNothingAllowed,  // the mask leaves no token
};

// Logprobs are natural logarithms of the softmax of the raw logits: what the model said before
// bias, penalties, mask and temperature. Written only when params.num_top_logprobs >= 0.
struct SampleOutput {
  TokenId token = 0;
  float logprob = 0;
  int32_t num_top = 0;                              // min(num_top_logprobs, V)
  std::array<TokenId, kMaxTopLogprobs> top_tokens;  // most probable first, ties: smaller id first
  std::array<float, kMaxTopLogprobs> top_logprobs;
};

// Draws one token of one row. The token is the argmax, over what the rules of SamplingParams leave,
// of logit / T + Gumbel(seed, choice, position, token id): it depends on nothing else, so a draft
// is right exactly if it equals the draw. Temperature 0 is the argmax alone. Ties: smaller id.
// Holds workspace only, taken at construction (16 bytes a token of the vocabulary). Thread-confined
// to the engine thread.
class Sampler {
 public:
  explicit Sampler(int32_t vocab_size);

  // `output` is unspecified unless kOk. Never allocates.
  SampleStatus sample(const SampleInput& input, SampleOutput& output);

 private:
  std::vector<double> scores_;       // [V]
  std::vector<TokenId> candidates_;  // [V]
  std::vector<TokenId> ranked_;      // [V], workspace of the rules
};

// -log(-log(u)) of the uniform number that these random bits stand for; finite, at most 36.8.
double gumbel(uint64_t bits);

}  // namespace yeoul
