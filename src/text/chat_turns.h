#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/conversation.h"

namespace yeoul {

// One part of a user turn: the user's words, or the result of a tool call.
struct TurnPart {
  std::string text;
  bool is_tool_result = false;
  std::string tool_call_id;
};

// A conversation as the prompt shows it: tool results are part of user turns, developer messages
// are system messages, and tools and response format of the conversation belong to the first turn.
struct Turn {
  enum class Kind : uint8_t { kSystem, kUser, kAssistant, kLatestReminder };
  Kind kind = Kind::kUser;
  std::string text;                   // all but kUser
  std::vector<TurnPart> parts;        // kUser
  std::string reasoning;              // kAssistant
  std::vector<ToolCall> tool_calls;   // kAssistant
  std::vector<ToolDefinition> tools;  // kSystem
  Json response_format;               // kSystem; null: none
  Task task = Task::kNone;
  bool continues = false;  // kAssistant, last
};

// kInvalidArgument names the message and what is wrong with it; kUnsupported: an image.
Result<std::vector<Turn>> make_turns(const Conversation& conversation);

}  // namespace yeoul
