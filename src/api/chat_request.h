#pragma once

#include "api/errors.h"
#include "api/generation_fields.h"
#include "base/json.h"
#include "text/conversation.h"

namespace yeoul {

// A parsed body of POST /v1/chat/completions. Plain data.
struct ChatRequest {
  GenerationFields fields;
  Conversation conversation;
  bool one_tool_call = false;  // parallel_tool_calls: false
};

// The error names the field, what was expected and what was found.
ApiResult<ChatRequest> parse_chat_request(const Json& body, const ParseContext& context);

// messages -> Conversation::messages; also used by POST /tokenize.
void read_messages(FieldReader& reader, FieldFindings& findings, std::vector<Message>& out);

// tools -> Conversation::tools.
void read_tools(FieldReader& reader, FieldFindings& findings, std::vector<ToolDefinition>& out);

// reasoning_effort, chat_template_kwargs and thinking; where they disagree the later of these wins.
void read_thinking(FieldReader& reader, FieldFindings& findings, Thinking& out);

}  // namespace yeoul
