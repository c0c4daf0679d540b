#include "api/completion_request.h"

#include <fmt/format.h>

namespace yeoul {
namespace {

constexpr const char* kPromptShapes =
    "a string, an array of strings, an array of token ids or an array of such arrays";

void read_prompt_list(FieldReader& reader, const Json& list, int32_t vocab_size,
                      std::vector<CompletionPrompt>& out) {
  if (list.size() > kMaxPrompts) {
    reader.mismatch("prompt", fmt::format("at most {} prompts", kMaxPrompts), list);
    return;
  }
  for (size_t i = 0; i < list.size() && !reader.failed(); ++i) {
    if (list[i].is_string()) {
      out.emplace_back(list[i].get<std::string>());
    } else if (list[i].is_array()) {
      std::vector<TokenId> ids;
      read_token_ids(reader, fmt::format("prompt[{}]", i), list[i], vocab_size, ids);
      out.emplace_back(std::move(ids));
    } else {
      reader.mismatch("prompt", kPromptShapes, list[i]);
    }
  }
}

void read_prompts(FieldReader& reader, int32_t vocab_size, std::vector<CompletionPrompt>& out) {
  const Json* prompt = reader.find("prompt");
  if (prompt != nullptr && prompt->is_string()) {
    out.emplace_back(prompt->get<std::string>());
  } else if (prompt == nullptr || !prompt->is_array() || prompt->empty()) {
    reader.mismatch("prompt", kPromptShapes, prompt == nullptr ? Json(nullptr) : *prompt);
  } else if (prompt->front().is_number()) {
    std::vector<TokenId> ids;
    read_token_ids(reader, "prompt", *prompt, vocab_size, ids);
    out.emplace_back(std::move(ids));
  } else {
    read_prompt_list(reader, *prompt, vocab_size, out);
  }
}

}  // namespace

void read_token_ids(FieldReader& reader, const std::string& name, const Json& list,
                    int32_t vocab_size, std::vector<TokenId>& out) {
  if (list.empty()) reader.mismatch(name, "at least one token id", list);
  out.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= vocab_size) {
      reader.mismatch(name, fmt::format("token ids from 0 to {}", vocab_size - 1), id);
      return;
    }
    out.push_back(id.get<TokenId>());
  }
}

ApiResult<CompletionRequest> parse_completion_request(const Json& body,
                                                      const ParseContext& context) {
  if (!body.is_object()) {
    return refuse({ErrorCode::kInvalidArgument,
                   fmt::format("request body: expected an object, found {}", describe(body))});
  }
  CompletionRequest request;
  FieldFindings findings;
  FieldReader reader(body, "", findings);
  read_generation_fields(reader, context, findings, request.fields);
  if (!request.fields.max_tokens) request.fields.max_tokens = kDefaultCompletionTokens;
  const auto top = reader.integer("logprobs", 0, kMaxTopLogprobs);
  if (top) request.fields.sampling.num_top_logprobs = static_cast<int>(*top);
  read_prompts(reader, context.vocab_size, request.prompts);
  reader.unsupported_unless("echo", false, "the prompt is not repeated");
  reader.unsupported_unless("suffix", "", "text cannot be inserted before a suffix");
  reader.unsupported_unless("response_format", Json{{"type", "text"}},
                            "output cannot be constrained yet");
  reader.ignore_rest();
  if (findings.error) return refuse(std::move(*findings.error));
  request.fields.ignored_fields = std::move(findings.ignored);
  return request;
}

}  // namespace yeoul
