#pragma once

#include <cstdint>

#include "base/result.h"
#include "engine/request.h"

namespace yeoul {

// What submit() measures a request against.
struct RequestLimits {
  int32_t vocab_size = 0;
  int64_t context_max = 0;    // positions of one sequence
  int64_t kv_positions = 0;   // positions that all KV pages together hold
  int32_t sequences_max = 0;  // running and waiting together
};

// Output tokens one choice may generate: max_tokens, or what the context and the KV memory allow.
int64_t output_max(const GenerateRequest& request, const RequestLimits& limits);

// kInvalidArgument, naming the field, its range and the value, for a request that can never be
// served. Pure.
Result<void> check_request(const GenerateRequest& request, const RequestLimits& limits);

}  // namespace yeoul
