#include "api/generation.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/stop_constraint.h"
#include "base/counter_rng.h"
#include "text/chat_format.h"

namespace yeoul {
namespace {

constexpr const char* kBegin = "<｜begin▁of▁sentence｜>";
constexpr const char* kEnd = "<｜end▁of▁sentence｜>";
constexpr const char* kAssistant = "<｜Assistant｜>";
constexpr const char* kUser = "<｜User｜>";

AnswerRules shared_rules(const GenerationFields& fields,
                         std::shared_ptr<const Tokenizer> tokenizer) {
  AnswerRules rules;
  rules.stop = fields.stop;
  rules.stop_token_ids = fields.stop_token_ids;
  const std::optional<TokenId> end = tokenizer->marker(kEnd);
  if (end && !fields.ignore_eos) rules.stop_token_ids.push_back(*end);
  rules.tokenizer = std::move(tokenizer);
  return rules;
}

}  // namespace

ApiResult<ChatPrompt> encode_conversation(const Conversation& conversation,
                                          const Tokenizer& tokenizer) {
  auto rendered = render_chat(conversation);
  if (!rendered) {
    ApiError error(std::move(rendered.error()));
    error.param = "messages";
    return refuse(std::move(error));
  }
  auto tokens = encode_chat(*rendered, tokenizer);
  if (!tokens) return refuse(std::move(tokens.error()));
  ChatPrompt prompt;
  prompt.tokens = std::move(*tokens);
  prompt.parser.starts_in_reasoning = rendered->starts_in_reasoning;
  prompt.parser.starts_in_tool_calls = rendered->starts_in_tool_calls;
  prompt.parser.continues_text = rendered->continues_text;
  return prompt;
}

std::vector<TokenId> encode_completion_prompt(const CompletionPrompt& prompt,
                                              const Tokenizer& tokenizer) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) return *ids;
  std::vector<TokenId> tokens;
  if (const auto begin = tokenizer.marker(kBegin)) tokens.push_back(*begin);
  tokenizer.encode_text(std::get<std::string>(prompt), tokens);
  return tokens;
}

AnswerRules chat_rules(const ChatRequest& request, const ChatPrompt& prompt,
                       std::shared_ptr<const Tokenizer> tokenizer) {
  AnswerRules rules = shared_rules(request.fields, std::move(tokenizer));
  rules.parser = prompt.parser;
  // Without tools on offer the markup is text, and nothing has to be held back to look for it.
  rules.parser.parse_tool_calls =
      !request.conversation.tools.empty() && request.conversation.tool_choice != ToolChoice::kNone;
  if (request.one_tool_call) rules.max_tool_calls = 1;
  return rules;
}

AnswerRules completion_rules(const GenerationFields& fields,
                             std::shared_ptr<const Tokenizer> tokenizer) {
  AnswerRules rules = shared_rules(fields, std::move(tokenizer));
  rules.plain_text = true;
  return rules;
}

ApiResult<void> check_context(int64_t prompt_tokens, std::optional<int64_t> max_tokens,
                              int64_t context_max, const char* param) {
  const int64_t output_tokens = max_tokens.value_or(1);
  if (prompt_tokens + output_tokens <= context_max) return {};
  std::string message =
      max_tokens ? fmt::format(
                       "the prompt has {} tokens and max_tokens asks for {} more, {} in all; the "
                       "context holds {} tokens",
                       prompt_tokens, output_tokens, prompt_tokens + output_tokens, context_max)
                 : fmt::format(
                       "the prompt has {} tokens; the context holds {} tokens, the answer "
                       "included",
                       prompt_tokens, context_max);
  return refuse(
      {ErrorCode::kInvalidArgument, std::move(message), param, "context_length_exceeded"});
}

uint64_t seed_from_prompts(std::span<const std::vector<TokenId>> prompts) {
  uint64_t seed = mix64(prompts.size());
  for (const std::vector<TokenId>& prompt : prompts) {
    seed = mix64(seed ^ prompt.size());
    for (const TokenId token : prompt) seed = mix64(seed ^ static_cast<uint32_t>(token));
  }
  return seed >> 11;
}

std::vector<int64_t> prompt_anchors(std::span<const TokenId> prompt, const Tokenizer& tokenizer) {
  std::vector<int64_t> anchors;
  const auto add = [&](auto found) {
    if (found != prompt.end()) anchors.push_back(found - prompt.begin());
  };
  if (const auto header = tokenizer.marker(kAssistant)) {
    const auto last = std::find(prompt.rbegin(), prompt.rend(), *header);
    if (last != prompt.rend()) add(last.base() - 1);
  }
  if (const auto header = tokenizer.marker(kUser)) add(std::ranges::find(prompt, *header));
  return anchors;
}

GenerateRequest make_generate_request(const GenerationFields& fields, const AnswerRules& rules,
                                      std::vector<TokenId> prompt, std::string trace_id) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.anchors = prompt_anchors(request.prompt, *rules.tokenizer);
  request.sampling = fields.sampling;
  request.num_choices = fields.num_choices;
  request.max_tokens = fields.max_tokens.value_or(0);
  request.stop_token_ids = rules.stop_token_ids;
  request.constraints = make_stop_constraints(rules, fields.num_choices);
  request.trace_id = std::move(trace_id);
  return request;
}

}  // namespace yeoul
