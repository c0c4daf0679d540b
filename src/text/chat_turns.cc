#include "text/chat_turns.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace yeoul {
namespace {

bool is_text(const Json& object, std::string_view key) {
  return object.contains(key) && object[key].is_string();
}

// A function needs a name; it may have a namespace, a string or {"name", "description"}, and then
// its name may carry it already ("namespace::name").
const char* wrong_with_function(const Json& function) {
  if (!function.is_object() || !is_text(function, "name")) return "a function with a name expected";
  if (function.contains("description") && !function["description"].is_null() &&
      !is_text(function, "description")) {
    return "text expected as description";
  }
  if (!function.contains("namespace") || function["namespace"].is_null()) return nullptr;
  const Json& space = function["namespace"];
  if (!space.is_string() && !(space.is_object() && is_text(space, "name"))) {
    return "a name expected as namespace";
  }
  if (space.is_object() && space.contains("description") && !is_text(space, "description")) {
    return "text expected as description of the namespace";
  }
  const std::string prefix = (space.is_object() ? space["name"] : space).get<std::string>() + "::";
  const std::string name = function["name"];
  const bool is_qualified = name.find("::") != std::string::npos;
  return is_qualified && !name.starts_with(prefix) ? "its name is of another namespace" : nullptr;
}

Result<void> check_tools(const std::vector<ToolDefinition>& tools, std::string_view where) {
  for (size_t i = 0; i < tools.size(); ++i) {
    if (const char* what = wrong_with_function(tools[i].function)) {
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}tools[{}]: {}", where, i, what));
    }
  }
  return {};
}

// Fields that only some roles have.
Result<void> check_message(const Message& message, bool is_last, const std::string& where) {
  const auto wrong = [&where](std::string_view what) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", where, what));
  };
  const bool is_assistant = message.role == Role::kAssistant;
  const bool is_system = message.role == Role::kSystem || message.role == Role::kDeveloper;
  if (!is_assistant && !message.reasoning.empty()) {
    return wrong("only an assistant message has reasoning");
  }
  if (!is_assistant && !message.tool_calls.empty()) {
    return wrong("only an assistant message has tool calls");
  }
  if (!is_system && !message.tools.empty()) return wrong("only a system message brings tools");
  if (!is_system && !message.response_format.is_null()) {
    return wrong("only a system message has a response format");
  }
  if (message.continues && !(is_assistant && is_last)) {
    return wrong("only a last assistant message can be continued");
  }
  if (message.continues && !message.tool_calls.empty()) {
    return wrong("a message with tool calls cannot be continued");
  }
  return check_tools(message.tools, where + ".");
}

Result<std::string> text_of(const Message& message, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < message.content.size(); ++i) {
    const auto* part = std::get_if<TextPart>(&message.content[i]);
    if (part == nullptr) {
      return fail(ErrorCode::kUnsupported,
                  fmt::format("{}.content[{}]: images are not supported", where, i));
    }
    if (i > 0) text += "\n\n";
    text += part->text;
  }
  return text;
}

// Results of one assistant turn stand in the order of its calls, at the places where results stand;
// results of unknown calls count as results of the first.
void order_tool_results(std::vector<Turn>& turns) {
  std::unordered_map<std::string, size_t> call_order;
  for (Turn& turn : turns) {
    if (turn.kind == Turn::Kind::kAssistant && !turn.tool_calls.empty()) {
      call_order.clear();
      for (size_t i = 0; i < turn.tool_calls.size(); ++i) {
        if (!turn.tool_calls[i].id.empty()) call_order[turn.tool_calls[i].id] = i;
      }
    }
    std::vector<TurnPart> results;
    for (const TurnPart& part : turn.parts) {
      if (part.is_tool_result) results.push_back(part);
    }
    const auto order = [&call_order](const TurnPart& part) {
      const auto found = call_order.find(part.tool_call_id);
      return found == call_order.end() ? 0 : found->second;
    };
    std::stable_sort(results.begin(), results.end(),
                     [&](const TurnPart& a, const TurnPart& b) { return order(a) < order(b); });
    size_t next = 0;
    for (TurnPart& part : turn.parts) {
      if (part.is_tool_result) part = std::move(results[next++]);
    }
  }
}

// Tools and response format of the conversation go to the first turn, which becomes a system turn.
Result<void> add_conversation_fields(const Conversation& conversation, std::vector<Turn>& turns) {
  const bool brings_tools =
      !conversation.tools.empty() && conversation.tool_choice != ToolChoice::kNone;
  if (!brings_tools && conversation.response_format.is_null()) return {};
  if (turns.front().kind != Turn::Kind::kSystem) {
    turns.insert(turns.begin(), Turn{.kind = Turn::Kind::kSystem});
  }
  Turn& first = turns.front();
  if (brings_tools) {
    first.tools.insert(first.tools.begin(), conversation.tools.begin(), conversation.tools.end());
  }
  if (conversation.response_format.is_null()) return {};
  if (!first.response_format.is_null()) {
    return fail(ErrorCode::kInvalidArgument,
                "messages[0]: the conversation has a response format already");
  }
  first.response_format = conversation.response_format;
  return {};
}

Turn::Kind kind_of(Role role) {
  switch (role) {
    case Role::kSystem:
    case Role::kDeveloper:
      return Turn::Kind::kSystem;
    case Role::kUser:
    case Role::kTool:
      return Turn::Kind::kUser;
    case Role::kAssistant:
      return Turn::Kind::kAssistant;
    case Role::kLatestReminder:
      return Turn::Kind::kLatestReminder;
  }
  return Turn::Kind::kUser;
}

// A user turn takes the following user and tool messages, until one asks for a task.
void add_user_part(const Message& message, std::string text, std::vector<Turn>& turns) {
  const bool is_tool = message.role == Role::kTool;
  const bool joins = !turns.empty() && turns.back().kind == Turn::Kind::kUser &&
                     (is_tool || turns.back().task == Task::kNone);
  if (!joins) turns.push_back(Turn{.kind = Turn::Kind::kUser});
  turns.back().parts.push_back({std::move(text), is_tool, message.tool_call_id});
  if (message.task != Task::kNone) turns.back().task = message.task;
}

}  // namespace

Result<std::vector<Turn>> make_turns(const Conversation& conversation) {
  if (conversation.messages.empty()) {
    return fail(ErrorCode::kInvalidArgument, "messages: at least one message expected");
  }
  TRY(check_tools(conversation.tools, ""));
  std::vector<Turn> turns;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Message& message = conversation.messages[i];
    const std::string where = fmt::format("messages[{}]", i);
    TRY(check_message(message, i + 1 == conversation.messages.size(), where));
    TRY_ASSIGN(std::string text, text_of(message, where));
    const Turn::Kind kind = kind_of(message.role);
    if (kind == Turn::Kind::kUser) {
      add_user_part(message, std::move(text), turns);
      continue;
    }
    turns.push_back(Turn{.kind = kind,
                         .text = std::move(text),
                         .reasoning = message.reasoning,
                         .tool_calls = message.tool_calls,
                         .tools = message.tools,
                         .response_format = message.response_format,
                         .task = message.task,
                         .continues = message.continues});
  }
  order_tool_results(turns);
  if (conversation.tool_choice == ToolChoice::kNone) {
    for (Turn& turn : turns) turn.tools.clear();
  }
  TRY(add_conversation_fields(conversation, turns));
  return turns;
}

}  // namespace yeoul
