#pragma once

#include <cstdint>
#include <string>

#include "api/errors.h"
#include "api/generation_fields.h"
#include "base/json.h"
#include "text/tokenizer.h"

namespace yeoul {

// POST /tokenize: {"prompt" | "content": text} or a chat body {"messages", "tools", ...}; answers
// {"count", "max_model_len", "tokens"}, and "token_strs" when return_token_strs is true.
//   add_special_tokens  put the begin marker first; default true for "prompt", false for "content"
//   parse_special       marker spellings in the text become their tokens; default false
ApiResult<std::string> tokenize(const Json& body, const Tokenizer& tokenizer,
                                const ParseContext& context, int64_t context_max);

// POST /detokenize: {"tokens": [...]} -> {"prompt": text, "content": text}.
ApiResult<std::string> detokenize(const Json& body, const Tokenizer& tokenizer,
                                  const ParseContext& context);

}  // namespace yeoul
