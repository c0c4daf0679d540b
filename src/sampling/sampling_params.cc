#include "sampling/sampling_params.h"

#include <fmt/format.h>

#include <cmath>

namespace yeoul {

namespace {

Result<void> out_of_range(const char* field, const char* range, double found) {
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} expected, {} found", field, range, found));
}

// False for NaN.
bool within(double value, double low, double high) {
  return value >= low && value <= high;
}

}  // namespace

Result<void> validate(const SamplingParams& params, int32_t vocab_size) {
  if (!within(params.temperature, 0, kMaxTemperature))
    return out_of_range("temperature", "a number in [0, 2]", params.temperature);
  if (!within(params.top_p, 0, 1) || params.top_p == 0)
    return out_of_range("top_p", "a number in (0, 1]", params.top_p);
  if (params.top_k < 0) return out_of_range("top_k", "0 (off) or more", params.top_k);
  if (!within(params.min_p, 0, 1)) return out_of_range("min_p", "a number in [0, 1]", params.min_p);
  if (!within(params.presence_penalty, -2, 2))
    return out_of_range("presence_penalty", "a number in [-2, 2]", params.presence_penalty);
  if (!within(params.frequency_penalty, -2, 2))
    return out_of_range("frequency_penalty", "a number in [-2, 2]", params.frequency_penalty);
  if (!(params.repetition_penalty > 0) || !std::isfinite(params.repetition_penalty))
    return out_of_range("repetition_penalty", "a finite number above 0", params.repetition_penalty);
  if (params.num_top_logprobs < -1 || params.num_top_logprobs > kMaxTopLogprobs)
    return out_of_range("top_logprobs", "0 to 20", params.num_top_logprobs);
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocab_size)
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("logit_bias: token ids 0 to {} expected, {} found", vocab_size - 1, token));
    if (!within(bias, -100, 100))
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("logit_bias: a number in [-100, 100] expected, {} found for token {}",
                              bias, token));
  }
  return {};
}

}  // namespace yeoul
