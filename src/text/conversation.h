#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/json.h"

namespace yeoul {

// A chat request in the model's own terms, independent of the wire dialect. Plain data.

enum class Role : uint8_t { kSystem, kDeveloper, kUser, kAssistant, kTool, kLatestReminder };

struct TextPart {
  std::string text;
};

// One image; its span of placeholder tokens is decided by the vision preprocessor.
struct ImagePart {
  std::string url;
};

using ContentPart = std::variant<TextPart, ImagePart>;

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text, normally an object
};

struct ToolDefinition {
  Json function;  // the OpenAI "function" object: name, description, parameters
};

// Internal classification tasks of the release (marker appended directly).
enum class Task : uint8_t { kNone, kAction, kQuery, kAuthority, kDomain, kTitle, kReadUrl };

struct Message {
  Role role = Role::kUser;
  std::vector<ContentPart> content;
  std::string reasoning;              // assistant: what stood inside <think>
  std::vector<ToolCall> tool_calls;   // assistant
  std::string tool_call_id;           // tool: which call this answers
  std::vector<ToolDefinition> tools;  // system: tools that this message brings
  Json response_format;               // system: JSON schema, or null
  Task task = Task::kNone;
  bool continues =
      false;  // assistant, last: no end marker, the model continues this text ("wo_eos")
};

// Reasoning effort of the request: off, or 1..100 (low 50, high 75, max 100).
struct Thinking {
  bool enabled = true;
  int effort = 75;
};

enum class ToolChoice : uint8_t { kAuto, kNone, kRequired };

struct Conversation {
  std::vector<Message> messages;
  std::vector<ToolDefinition> tools;
  Json response_format;  // JSON schema the answer must follow, or null
  Thinking thinking;
  ToolChoice tool_choice = ToolChoice::kAuto;
  bool drop_old_reasoning = true;     // rule 10 of the format; tools anywhere keep all reasoning
  bool add_generation_header = true;  // end with the assistant header
};

}  // namespace yeoul
