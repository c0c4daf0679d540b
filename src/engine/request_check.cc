#include "engine/request_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

namespace yeoul {

namespace {

Result<void> check_tokens(std::span<const TokenId> tokens, int32_t vocab_size, const char* field) {
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || tokens[i] >= vocab_size)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: entry {} is token {}, the vocabulary has {}", field, i,
                              tokens[i], vocab_size));
  return {};
}

Result<void> check_length(const GenerateRequest& request, const RequestLimits& limits) {
  const auto prompt_len = static_cast<int64_t>(request.prompt.size());
  // At least one token is generated.
  const int64_t total = prompt_len + std::max<int64_t>(request.max_tokens, 1);
  if (request.max_tokens > limits.context_max || total > limits.context_max) {
    const int64_t rest = limits.context_max - prompt_len;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the prompt has {} tokens and max_tokens is {}, but the context is {} tokens; {}",
            prompt_len, request.max_tokens, limits.context_max,
            rest > 0
                ? fmt::format("use max_tokens of at most {}", rest)
                : fmt::format("shorten the prompt to at most {} tokens", limits.context_max - 1)));
  }
  // The last output token is never computed, so its position needs no page.
  if (total - 1 > limits.kv_positions) {
    const int64_t rest = limits.kv_positions + 1 - prompt_len;
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("the prompt has {} tokens and max_tokens is {}, but the KV memory holds {} "
                    "tokens; {}",
                    prompt_len, request.max_tokens, limits.kv_positions,
                    rest > 0 ? fmt::format("use max_tokens of at most {}", rest)
                             : fmt::format("shorten the prompt to at most {} tokens",
                                           limits.kv_positions)));
  }
  return {};
}

}  // namespace

int64_t output_max(const GenerateRequest& request, const RequestLimits& limits) {
  if (request.max_tokens > 0) return request.max_tokens;
  const auto prompt_len = static_cast<int64_t>(request.prompt.size());
  return std::min(limits.context_max, limits.kv_positions + 1) - prompt_len;
}

Result<void> check_request(const GenerateRequest& request, const RequestLimits& limits) {
  if (request.prompt.empty())
    return fail(ErrorCode::kInvalidArgument, "prompt: at least one token expected, 0 found");
  TRY(check_tokens(request.prompt, limits.vocab_size, "prompt"));
  TRY(check_tokens(request.stop_token_ids, limits.vocab_size, "stop_token_ids"));
  if (request.num_choices < 1 || request.num_choices > limits.sequences_max)
    return fail(
        ErrorCode::kInvalidArgument,
        fmt::format("n: 1 to {} expected, {} found", limits.sequences_max, request.num_choices));
  if (request.max_tokens < 0)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("max_tokens: at least 0 expected, {} found", request.max_tokens));
  if (request.deadline < Duration::zero())
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("deadline: not negative expected, {} s found",
                            std::chrono::duration<double>(request.deadline).count()));
  if (!request.constraints.empty() &&
      request.constraints.size() != static_cast<size_t>(request.num_choices))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("constraints: none or one per choice ({}) expected, {} found",
                            request.num_choices, request.constraints.size()));
  TRY(validate(request.sampling, limits.vocab_size));
  return check_length(request, limits);
}

}  // namespace yeoul
