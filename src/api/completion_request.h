#pragma once

#include <string>
#include <variant>
#include <vector>

#include "api/errors.h"
#include "api/generation_fields.h"
#include "base/json.h"

namespace yeoul {

inline constexpr size_t kMaxPrompts = 64;
inline constexpr int64_t kDefaultCompletionTokens = 16;  // OpenAI's default for this endpoint

// Text (marker spellings in it stay text) or token ids as they are.
using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;

// A parsed body of POST /v1/completions. Plain data.
struct CompletionRequest {
  GenerationFields fields;
  std::vector<CompletionPrompt> prompts;  // not empty
};

// The error names the field, what was expected and what was found.
ApiResult<CompletionRequest> parse_completion_request(const Json& body,
                                                      const ParseContext& context);

// Reads an array of token ids into `out`; a fault goes to the reader's findings.
void read_token_ids(FieldReader& reader, const std::string& name, const Json& list,
                    int32_t vocab_size, std::vector<TokenId>& out);

}  // namespace yeoul
