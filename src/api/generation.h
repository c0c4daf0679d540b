#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "api/answer_decoder.h"
#include "api/chat_request.h"
#include "api/completion_request.h"
#include "api/errors.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace yeoul {

// A chat prompt in tokens and how to read its answer. Plain data.
struct ChatPrompt {
  std::vector<TokenId> tokens;
  OutputParser::Options parser;
};
ApiResult<ChatPrompt> encode_conversation(const Conversation& conversation,
                                          const Tokenizer& tokenizer);

// Text prompts start with the begin marker, as the model was trained; token ids are taken as sent.
std::vector<TokenId> encode_completion_prompt(const CompletionPrompt& prompt,
                                              const Tokenizer& tokenizer);

// The rules for reading the answer to a chat request or a plain completion.
AnswerRules chat_rules(const ChatRequest& request, const ChatPrompt& prompt,
                       std::shared_ptr<const Tokenizer> tokenizer);
AnswerRules completion_rules(const GenerationFields& fields,
                             std::shared_ptr<const Tokenizer> tokenizer);

// context_length_exceeded, naming both numbers, unless the prompt and at least one (or max_tokens)
// output tokens fit. `param` is the field to blame.
ApiResult<void> check_context(int64_t prompt_tokens, std::optional<int64_t> max_tokens,
                              int64_t context_max, const char* param);

// A seed that the same prompts always get, below 2^53 so that JavaScript clients keep it.
uint64_t seed_from_prompts(std::span<const std::vector<TokenId>> prompts);

// Where other prompts are likely to leave this one: before the last header of the assistant, since
// the next turn may open it with other reasoning or without, and before the first of the user,
// where what all conversations of an application have in common ends.
std::vector<int64_t> prompt_anchors(std::span<const TokenId> prompt, const Tokenizer& tokenizer);

// What the engine gets.
GenerateRequest make_generate_request(const GenerationFields& fields, const AnswerRules& rules,
                                      std::vector<TokenId> prompt, std::string trace_id);

}  // namespace yeoul
