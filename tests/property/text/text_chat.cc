// Renders conversations from standard input for comparison with another implementation.
//   text_chat TOKENIZER_JSON
// One JSON object a line, our own form of a conversation (see read_conversation); the answer is one
// line {"prompt": ..., "ids": [...]} or {"error": ...}.

#include <cstdio>
#include <iostream>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "text/chat_format.h"

namespace {

using yeoul::Conversation;
using yeoul::Json;
using yeoul::Message;
using yeoul::Role;
using yeoul::Task;
using yeoul::ToolDefinition;

Role role_of(const std::string& name) {
  if (name == "system") return Role::kSystem;
  if (name == "developer") return Role::kDeveloper;
  if (name == "user") return Role::kUser;
  if (name == "assistant") return Role::kAssistant;
  if (name == "tool") return Role::kTool;
  CHECK(name == "latest_reminder", "role {}", name);
  return Role::kLatestReminder;
}

Task task_of(const std::string& name) {
  if (name == "action") return Task::kAction;
  if (name == "query") return Task::kQuery;
  if (name == "authority") return Task::kAuthority;
  if (name == "domain") return Task::kDomain;
  if (name == "title") return Task::kTitle;
  if (name == "read_url") return Task::kReadUrl;
  CHECK(name.empty(), "task {}", name);
  return Task::kNone;
}

std::vector<ToolDefinition> tools_of(const Json& object) {
  std::vector<ToolDefinition> tools;
  if (!object.contains("tools")) return tools;
  for (const Json& function : object["tools"]) tools.push_back({function});
  return tools;
}

Message read_message(const Json& json) {
  Message message;
  message.role = role_of(json["role"]);
  for (const Json& part : json["content"]) {
    message.content.push_back(yeoul::TextPart{part.get<std::string>()});
  }
  message.reasoning = json.value("reasoning", "");
  message.tool_call_id = json.value("tool_call_id", "");
  message.tools = tools_of(json);
  message.task = task_of(json.value("task", ""));
  message.continues = json.value("continues", false);
  if (json.contains("response_format")) message.response_format = json["response_format"];
  if (!json.contains("tool_calls")) return message;
  for (const Json& call : json["tool_calls"]) {
    message.tool_calls.push_back({call["id"], call["name"], call["arguments"]});
  }
  return message;
}

Conversation read_conversation(const Json& json) {
  Conversation conversation;
  for (const Json& message : json["messages"]) {
    conversation.messages.push_back(read_message(message));
  }
  conversation.tools = tools_of(json);
  if (json.contains("response_format")) conversation.response_format = json["response_format"];
  conversation.thinking.enabled = json["effort"] != 0;  // 0: off
  conversation.thinking.effort = json["effort"];
  const std::string choice = json.value("tool_choice", "auto");
  if (choice == "none") conversation.tool_choice = yeoul::ToolChoice::kNone;
  if (choice == "required") conversation.tool_choice = yeoul::ToolChoice::kRequired;
  conversation.drop_old_reasoning = json.value("drop_old_reasoning", true);
  return conversation;
}

Json answer_to(const std::string& line, const yeoul::Tokenizer& tokenizer) {
  const auto json = yeoul::parse_json(line);
  CHECK(json.has_value(), "{}", json.error().message);
  const auto chat = yeoul::render_chat(read_conversation(*json));
  if (!chat) return {{"error", chat.error().message}};
  const auto ids = yeoul::encode_chat(*chat, tokenizer);
  if (!ids) return {{"error", ids.error().message}};
  return {{"prompt", chat->to_text()}, {"ids", *ids}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON\n", argv[0]);
    return 2;
  }
  const auto tokenizer = yeoul::Tokenizer::load(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << yeoul::dump_compact(answer_to(line, **tokenizer)) << "\n";
  }
  return 0;
}
