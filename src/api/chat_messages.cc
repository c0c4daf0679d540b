#include <fmt/format.h>

#include <array>

#include "api/chat_request.h"

namespace yeoul {
namespace {

struct RoleName {
  const char* name;
  Role role;
};
constexpr std::array kRoles = {
    RoleName{"system", Role::kSystem}, RoleName{"developer", Role::kDeveloper},
    RoleName{"user", Role::kUser},     RoleName{"assistant", Role::kAssistant},
    RoleName{"tool", Role::kTool},     RoleName{"latest_reminder", Role::kLatestReminder},
};
constexpr const char* kRoleList =
    "one of \"system\", \"developer\", \"user\", \"assistant\", \"tool\", \"latest_reminder\"";

void read_role(FieldReader& reader, Message& out) {
  const Json* value = reader.find("role");
  if (value != nullptr && value->is_string()) {
    for (const RoleName& row : kRoles) {
      if (*value == row.name) {
        out.role = row.role;
        return;
      }
    }
  }
  reader.mismatch("role", kRoleList, value == nullptr ? Json(nullptr) : *value);
}

void read_part(const Json& part, const std::string& path, FieldFindings& findings, Message& out) {
  FieldReader reader(part, path, findings);
  const std::string type = reader.text("type").value_or("");
  if (type == "text" || type == "input_text" || type == "output_text") {
    const auto text = reader.text("text");
    if (!text) reader.mismatch("text", "a string", Json(nullptr));
    out.content.emplace_back(TextPart{text.value_or("")});
    reader.accept_without_effect({"cache_control", "annotations"});
    reader.ignore_rest();
    return;
  }
  if (type == "image_url" || type == "input_image" || type == "image") {
    reader.unsupported("type", "image input is not built in yet; send text only");
    return;
  }
  if (type == "input_audio" || type == "file" || type == "video_url") {
    reader.unsupported("type", fmt::format("the model does not read \"{}\" parts", type));
    return;
  }
  reader.mismatch("type", "\"text\"", type.empty() ? Json(nullptr) : Json(type));
}

// A string, null (assistant and tool only) or an array of parts.
void read_content(FieldReader& reader, FieldFindings& findings, Message& out) {
  const Json* content = reader.find("content");
  if (content == nullptr) {
    if (out.role == Role::kAssistant || out.role == Role::kTool) return;
    reader.mismatch("content", "a string or an array of parts", Json(nullptr));
    return;
  }
  if (content->is_string()) {
    out.content.emplace_back(TextPart{content->get<std::string>()});
    return;
  }
  if (!content->is_array()) {
    reader.mismatch("content", "a string or an array of parts", *content);
    return;
  }
  for (size_t i = 0; i < content->size() && !reader.failed(); ++i) {
    const std::string name = fmt::format("content[{}]", i);
    if ((*content)[i].is_object()) {
      read_part((*content)[i], reader.path_of(name), findings, out);
    } else {
      reader.mismatch(name, "an object", (*content)[i]);
    }
  }
}

void read_tool_call(const Json& call, const std::string& path, FieldFindings& findings,
                    Message& out) {
  FieldReader reader(call, path, findings);
  ToolCall parsed;
  parsed.id = reader.text("id").value_or("");
  const std::string type = reader.text("type").value_or("function");
  if (type != "function") reader.mismatch("type", "\"function\"", Json(type));
  reader.accept_without_effect({"index"});
  const Json* function = reader.object("function");
  if (function == nullptr) {
    reader.mismatch("function", "an object", Json(nullptr));
    return;
  }
  FieldReader inner(*function, reader.path_of("function"), findings);
  const auto name = inner.text("name");
  if (!name || name->empty()) inner.mismatch("name", "a non-empty string", Json(nullptr));
  parsed.name = name.value_or("");
  // Some clients send the parsed object instead of its text.
  const Json* arguments = inner.find("arguments");
  if (arguments != nullptr && arguments->is_object()) {
    parsed.arguments = dump_python_style(*arguments);
  } else {
    parsed.arguments = inner.text("arguments").value_or("{}");
  }
  inner.ignore_rest();
  reader.ignore_rest();
  out.tool_calls.push_back(std::move(parsed));
}

void read_assistant_fields(FieldReader& reader, FieldFindings& findings, bool is_last,
                           Message& out) {
  const auto reasoning = reader.text("reasoning_content");
  const auto reasoning_alias = reader.text("reasoning");
  out.reasoning = reasoning ? *reasoning : reasoning_alias.value_or("");
  if (const Json* calls = reader.array("tool_calls")) {
    for (size_t i = 0; i < calls->size() && !reader.failed(); ++i) {
      const std::string name = fmt::format("tool_calls[{}]", i);
      if ((*calls)[i].is_object()) {
        read_tool_call((*calls)[i], reader.path_of(name), findings, out);
      } else {
        reader.mismatch(name, "an object", (*calls)[i]);
      }
    }
  }
  reader.unsupported_unless("function_call", nullptr, "use tool_calls");
  reader.accept_without_effect({"refusal", "annotations"});
  const Json* prefix = reader.find("prefix");
  if (reader.boolean("prefix").value_or(false)) {
    if (!is_last) reader.mismatch("prefix", "true on the last message only", *prefix);
    out.continues = true;
  }
}

void read_message(const Json& message, const std::string& path, bool is_last,
                  FieldFindings& findings, std::vector<Message>& out) {
  FieldReader reader(message, path, findings);
  Message parsed;
  read_role(reader, parsed);
  if (reader.failed()) return;
  read_content(reader, findings, parsed);
  if (parsed.role == Role::kAssistant) read_assistant_fields(reader, findings, is_last, parsed);
  if (parsed.role == Role::kTool) {
    const auto id = reader.text("tool_call_id");
    if (!id) reader.mismatch("tool_call_id", "a string", Json(nullptr));
    parsed.tool_call_id = id.value_or("");
  }
  reader.ignore_rest();
  out.push_back(std::move(parsed));
}

}  // namespace

void read_messages(FieldReader& reader, FieldFindings& findings, std::vector<Message>& out) {
  const Json* messages = reader.array("messages");
  if (messages == nullptr || messages->empty()) {
    reader.mismatch("messages", "an array of at least one message",
                    messages == nullptr ? Json(nullptr) : *messages);
    return;
  }
  for (size_t i = 0; i < messages->size() && !reader.failed(); ++i) {
    const std::string name = fmt::format("messages[{}]", i);
    if ((*messages)[i].is_object()) {
      read_message((*messages)[i], name, i + 1 == messages->size(), findings, out);
    } else {
      reader.mismatch(name, "an object", (*messages)[i]);
    }
  }
}

void read_tools(FieldReader& reader, FieldFindings& findings, std::vector<ToolDefinition>& out) {
  const Json* tools = reader.array("tools");
  if (tools == nullptr) return;
  for (size_t i = 0; i < tools->size() && !reader.failed(); ++i) {
    const std::string path = fmt::format("tools[{}]", i);
    const Json& tool = (*tools)[i];
    if (!tool.is_object()) {
      reader.mismatch(path, "an object", tool);
      return;
    }
    FieldReader outer(tool, path, findings);
    const std::string type = outer.text("type").value_or("function");
    if (type != "function") outer.unsupported("type", "only \"function\" tools can be offered");
    const Json* function = outer.object("function");
    if (function == nullptr) {
      outer.mismatch("function", "an object", Json(nullptr));
      return;
    }
    FieldReader inner(*function, path + ".function", findings);
    const auto name = inner.text("name");
    if (!name || name->empty()) inner.mismatch("name", "a non-empty string", Json(nullptr));
    inner.text("description");
    inner.object("parameters");
    inner.unsupported_unless("strict", false, "arguments cannot be constrained to a schema yet");
    outer.ignore_rest();
    out.push_back({*function});  // as sent: key order decides the bytes of the prompt
  }
}

}  // namespace yeoul
