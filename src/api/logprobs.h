#pragma once

#include "base/json.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace yeoul {

// One entry of logprobs.content: {"token", "logprob", "bytes", "top_logprobs"}. `bytes` is exact
// where `token` had to replace half a code point.
Json format_token_logprob(const TokenEvent& event, const Tokenizer& tokenizer);

// -inf does not exist in JSON; OpenAI's stand-in is -9999.
double wire_logprob(float logprob);

}  // namespace yeoul
