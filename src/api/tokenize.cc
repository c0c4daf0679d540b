#include "api/tokenize.h"

#include <fmt/format.h>

#include "api/chat_request.h"
#include "api/generation.h"

namespace yeoul {
namespace {

ApiResult<void> expect_object(const Json& body) {
  if (body.is_object()) return {};
  return refuse({ErrorCode::kInvalidArgument,
                 fmt::format("request body: expected an object, found {}", describe(body))});
}

ApiResult<std::vector<TokenId>> encode_chat_body(FieldReader& reader, FieldFindings& findings,
                                                 const Tokenizer& tokenizer,
                                                 const ParseContext& context) {
  Conversation conversation;
  conversation.thinking = context.default_thinking;
  read_thinking(reader, findings, conversation.thinking);
  read_tools(reader, findings, conversation.tools);
  read_messages(reader, findings, conversation.messages);
  conversation.add_generation_header = reader.boolean("add_generation_prompt").value_or(true);
  if (findings.error) return refuse(*findings.error);
  auto prompt = encode_conversation(conversation, tokenizer);
  if (!prompt) return refuse(std::move(prompt.error()));
  return std::move(prompt->tokens);
}

std::vector<TokenId> encode_plain(FieldReader& reader, const std::string& text,
                                  const Tokenizer& tokenizer, const bool begin_by_default) {
  std::vector<TokenId> tokens;
  if (reader.boolean("add_special_tokens").value_or(begin_by_default)) {
    tokens = encode_completion_prompt(std::string(), tokenizer);  // the begin marker alone
  }
  if (reader.boolean("parse_special").value_or(false)) {
    tokenizer.encode_with_markers(text, tokens);
  } else {
    tokenizer.encode_text(text, tokens);
  }
  return tokens;
}

}  // namespace

ApiResult<std::string> tokenize(const Json& body, const Tokenizer& tokenizer,
                                const ParseContext& context, int64_t context_max) {
  if (auto object = expect_object(body); !object) return refuse(std::move(object.error()));
  FieldFindings findings;
  FieldReader reader(body, "", findings);
  const bool want_strings = reader.boolean("return_token_strs").value_or(false);
  std::vector<TokenId> tokens;
  if (reader.find("messages") != nullptr) {
    auto encoded = encode_chat_body(reader, findings, tokenizer, context);
    if (!encoded) return refuse(std::move(encoded.error()));
    tokens = std::move(*encoded);
  } else {
    const auto prompt = reader.text("prompt");
    const auto content = reader.text("content");
    if (!prompt && !content) {
      reader.mismatch("prompt", "a string (or \"content\", or \"messages\")", Json(nullptr));
    }
    const std::string& text = prompt ? *prompt : content.value_or("");
    tokens = encode_plain(reader, text, tokenizer, prompt.has_value());
  }
  if (findings.error) return refuse(std::move(*findings.error));
  Json out;
  out["count"] = tokens.size();
  out["max_model_len"] = context_max;
  out["tokens"] = tokens;
  if (want_strings) {
    Json strings = Json::array();
    for (const TokenId id : tokens) strings.push_back(std::string(tokenizer.token_entry(id)));
    out["token_strs"] = std::move(strings);
  }
  return dump_compact(out);
}

ApiResult<std::string> detokenize(const Json& body, const Tokenizer& tokenizer,
                                  const ParseContext& context) {
  if (auto object = expect_object(body); !object) return refuse(std::move(object.error()));
  FieldFindings findings;
  FieldReader reader(body, "", findings);
  const Json* list = reader.array("tokens");
  std::vector<TokenId> tokens;
  if (list == nullptr) {
    reader.mismatch("tokens", "an array of token ids", Json(nullptr));
  } else if (!list->empty()) {
    read_token_ids(reader, "tokens", *list, context.vocab_size, tokens);
  }
  if (findings.error) return refuse(std::move(*findings.error));
  const std::string text = tokenizer.decode(tokens);
  return dump_compact(Json{{"prompt", text}, {"content", text}});
}

}  // namespace yeoul
