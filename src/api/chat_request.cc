#include "api/chat_request.h"

#include <fmt/format.h>

#include <array>

namespace yeoul {
namespace {

struct EffortName {
  const char* name;
  int effort;  // 0: thinking off
};
// low, high and max are the release's own; the others are neighbours that clients send.
constexpr std::array kEfforts = {
    EffortName{"none", 0},    EffortName{"minimal", 25}, EffortName{"low", 50},
    EffortName{"medium", 75}, EffortName{"high", 75},    EffortName{"xhigh", 100},
    EffortName{"max", 100},
};

void read_effort(FieldReader& reader, Thinking& out) {
  const Json* value = reader.find("reasoning_effort");
  if (value == nullptr) return;
  if (value->is_number()) {
    if (const auto effort = reader.integer("reasoning_effort", 1, 100)) {
      out = {true, static_cast<int>(*effort)};
    }
    return;
  }
  for (const EffortName& row : kEfforts) {
    if (*value != row.name) continue;
    if (row.effort == 0) {
      out.enabled = false;
    } else {
      out = {true, row.effort};
    }
    return;
  }
  reader.mismatch("reasoning_effort",
                  "\"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\", \"max\" or an "
                  "integer from 1 to 100",
                  *value);
}

void read_tool_choice(FieldReader& reader, Conversation& out) {
  const Json* choice = reader.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_object()) {
    reader.unsupported("tool_choice", "a named function cannot be forced; use \"required\"");
  } else if (*choice == "auto") {
    out.tool_choice = ToolChoice::kAuto;
  } else if (*choice == "none") {
    out.tool_choice = ToolChoice::kNone;
  } else if (*choice == "required") {
    out.tool_choice = ToolChoice::kRequired;
    if (out.tools.empty()) reader.mismatch("tool_choice", "tools to choose from", *choice);
  } else {
    reader.mismatch("tool_choice", "\"auto\", \"none\" or \"required\"", *choice);
  }
}

void read_response_format(FieldReader& reader, FieldFindings& findings) {
  const Json* format = reader.object("response_format");
  if (format == nullptr) return;
  FieldReader inner(*format, "response_format", findings);
  const auto type = inner.text("type");
  if (type == "text") return;
  if (type == "json_object" || type == "json_schema") {
    inner.unsupported("type", fmt::format("\"{}\" cannot be enforced yet", *type));
  } else {
    inner.mismatch("type", "\"text\"", type ? Json(*type) : Json(nullptr));
  }
}

void read_logprobs(FieldReader& reader, SamplingParams& out) {
  const bool wanted = reader.boolean("logprobs").value_or(false);
  const auto top = reader.integer("top_logprobs", 0, kMaxTopLogprobs);
  if (top && !wanted && *top > 0) {
    reader.mismatch("top_logprobs", "logprobs: true beside it", Json(*top));
  }
  if (wanted) out.num_top_logprobs = static_cast<int>(top.value_or(0));
}

void refuse_known_chat_fields(FieldReader& reader) {
  reader.unsupported_unless("functions", nullptr, "use tools");
  reader.unsupported_unless("function_call", nullptr, "use tool_choice");
  reader.unsupported_unless("audio", nullptr, "the model does not speak");
  reader.unsupported_unless("modalities", Json::array({"text"}), "only text comes out");
  reader.unsupported_unless("prediction", nullptr, "predicted outputs are not built in");
  reader.unsupported_unless("web_search_options", nullptr, "there is no search behind this server");
}

}  // namespace

void read_thinking(FieldReader& reader, FieldFindings& findings, Thinking& out) {
  read_effort(reader, out);
  if (const Json* kwargs = reader.object("chat_template_kwargs")) {
    FieldReader inner(*kwargs, "chat_template_kwargs", findings);
    read_effort(inner, out);
    for (const char* name : {"thinking", "enable_thinking"}) {
      if (const auto enabled = inner.boolean(name)) out.enabled = *enabled;
    }
    inner.ignore_rest();
  }
  const Json* thinking = reader.object("thinking");
  if (thinking == nullptr) return;
  FieldReader inner(*thinking, "thinking", findings);
  const auto type = inner.text("type");
  if (type == "disabled") {
    out.enabled = false;
  } else if (type == "enabled" || type == "adaptive" || type == "auto") {
    out.enabled = true;
  } else {
    inner.mismatch("type", "\"enabled\", \"disabled\" or \"adaptive\"",
                   type ? Json(*type) : Json(nullptr));
  }
  inner.unsupported_unless("budget_tokens", nullptr, "reasoning cannot be cut; use max_tokens");
  inner.ignore_rest();
}

ApiResult<ChatRequest> parse_chat_request(const Json& body, const ParseContext& context) {
  if (!body.is_object()) {
    return refuse({ErrorCode::kInvalidArgument,
                   fmt::format("request body: expected an object, found {}", describe(body))});
  }
  ChatRequest request;
  FieldFindings findings;
  FieldReader reader(body, "", findings);
  read_generation_fields(reader, context, findings, request.fields);
  read_logprobs(reader, request.fields.sampling);
  request.conversation.thinking = context.default_thinking;
  read_thinking(reader, findings, request.conversation.thinking);
  read_tools(reader, findings, request.conversation.tools);
  read_tool_choice(reader, request.conversation);
  request.one_tool_call = !reader.boolean("parallel_tool_calls").value_or(true);
  read_response_format(reader, findings);
  read_messages(reader, findings, request.conversation.messages);
  refuse_known_chat_fields(reader);
  reader.ignore_rest();
  if (findings.error) return refuse(std::move(*findings.error));
  request.fields.ignored_fields = std::move(findings.ignored);
  return request;
}

}  // namespace yeoul
