// Any bytes as a conversation: refused with a message, or a prompt whose markers are exactly those
// that the format puts there, whatever the messages spell.
// The first three bytes are options; then messages, each ended by 0x1E: a byte for the role, then
// fields separated by 0x1F: text, reasoning, name and arguments of a call, call id.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/chat_format.h"

namespace {

using yeoul::Role;

constexpr std::array kRoles = {Role::kUser,      Role::kAssistant, Role::kTool,
                               Role::kSystem,    Role::kDeveloper, Role::kLatestReminder,
                               Role::kAssistant, Role::kUser};

std::shared_ptr<const yeoul::Tokenizer> tokenizer() {
  static const auto loaded = yeoul::Tokenizer::load("models/tiny-random/tokenizer.json");
  CHECK(loaded.has_value(), "{}", loaded.error().message);
  return *loaded;
}

std::string_view next_field(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view field = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return field;
}

yeoul::Message read_message(std::string_view record) {
  yeoul::Message message;
  const auto head = static_cast<uint8_t>(record.front());
  record.remove_prefix(1);
  message.role = kRoles[head % kRoles.size()];
  message.continues = (head & 0x10) != 0;
  message.task = (head & 0x20) != 0 ? yeoul::Task::kTitle : yeoul::Task::kNone;
  message.content = {yeoul::TextPart{std::string(next_field(record, '\x1f'))}};
  message.reasoning = next_field(record, '\x1f');
  while (!record.empty()) {
    const std::string name(next_field(record, '\x1f'));
    const std::string arguments(next_field(record, '\x1f'));
    message.tool_calls.push_back({std::string(next_field(record, '\x1f')), name, arguments});
  }
  if (message.role == Role::kTool) message.tool_call_id = std::move(message.reasoning);
  if (message.role != Role::kAssistant) {
    message.reasoning.clear();
    if ((head & 0x40) == 0) message.tool_calls.clear();
  }
  return message;
}

yeoul::Conversation read_conversation(std::string_view data) {
  yeoul::Conversation conversation;
  const auto options = static_cast<uint8_t>(data[0]);
  conversation.thinking = {(options & 1) != 0, static_cast<int8_t>(data[1])};
  conversation.drop_old_reasoning = (options & 2) == 0;
  conversation.add_generation_header = (options & 4) == 0;
  conversation.tool_choice = static_cast<yeoul::ToolChoice>(static_cast<uint8_t>(data[2]) % 3);
  data.remove_prefix(3);
  if ((options & 8) != 0) {
    const std::string name(next_field(data, '\x1e'));
    conversation.tools = {{yeoul::Json{{"name", name}, {"parameters", name}}}};
  }
  if ((options & 16) != 0) conversation.response_format = std::string(next_field(data, '\x1e'));
  while (!data.empty()) {
    const std::string_view record = next_field(data, '\x1e');
    if (!record.empty()) conversation.messages.push_back(read_message(record));
  }
  return conversation;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto conversation = read_conversation({reinterpret_cast<const char*>(data), size});
  const auto chat = yeoul::render_chat(conversation);
  if (!chat) {
    CHECK(!chat.error().message.empty());
    return 0;
  }
  auto ids = yeoul::encode_chat(*chat, *tokenizer());
  if (!ids) {  // the tiny vocabulary has no task markers
    CHECK(chat->to_text().find("<｜title｜>") != std::string::npos, "{}", ids.error().message);
    return 0;
  }
  CHECK(tokenizer()->decode(*ids) == chat->to_text());
  std::vector<yeoul::TokenId> markers;
  for (const yeoul::PromptPiece& piece : chat->pieces) {
    if (piece.is_marker) markers.push_back(*tokenizer()->marker(piece.text));
  }
  std::erase_if(*ids, [](yeoul::TokenId id) { return !tokenizer()->is_marker(id); });
  CHECK(*ids == markers);
  return 0;
}
