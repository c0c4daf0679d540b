#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace yeoul {

// Logits rules of one request, in the order they are applied: bias, penalties, the constraint's
// mask, temperature, top_k, top_p, min_p. Plain data.
struct SamplingParams {
  float temperature = 1.0f;         // [0, kMaxTemperature]; 0: greedy
  float top_p = 1.0f;               // (0, 1]
  int top_k = 0;                    // 0: off
  float min_p = 0.0f;               // [0, 1]
  float presence_penalty = 0.0f;    // [-2, 2], OpenAI's definition, over output tokens
  float frequency_penalty = 0.0f;   // [-2, 2], over output tokens
  float repetition_penalty = 1.0f;  // > 0, over prompt and output tokens
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logit, [-100, 100]
  uint64_t seed = 0;                                  // always set by the time the engine runs
  int num_top_logprobs = -1;                          // -1: no logprobs; 0..20
};

inline constexpr int kMaxTopLogprobs = 20;
inline constexpr float kMaxTemperature = 2.0f;

// kInvalidArgument with the field, its range and the value found. NaN is out of every range.
Result<void> validate(const SamplingParams& params, int32_t vocab_size);

}  // namespace yeoul
