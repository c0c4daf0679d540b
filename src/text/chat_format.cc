#include "text/chat_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/chat_turns.h"
#include "text/prompt_writer.h"

namespace yeoul {
namespace {

// The model was trained on these texts; they are wire constants (model.md section 7.2-7.3).
constexpr std::string_view kEffortLine =
    "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n";
constexpr std::string_view kResponseFormatHead =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";
constexpr std::string_view kToolsHead =
    "\n\n## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by "
    "writing a \"<｜DSML｜ calls>\" block like the following:\n\n"
    "<｜DSML｜ calls>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME\">\n"
    "<｜DSML｜ parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE"
    "</｜DSML｜ parameter>\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "<｜DSML｜ invoke name=\"$TOOL_NAME2\">\n"
    "...\n"
    "</｜DSML｜ invoke>\n"
    "</｜DSML｜ calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types "
    "(numbers, booleans, arrays, objects), pass the value in JSON format and set "
    "`string=\"false\"`.\n\n"
    "If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning "
    "inside <think>...</think> BEFORE any tool calls or final response.\n\n"
    "Otherwise, output directly after </think> with tool calls or final response.\n\n"
    "### Available Tool Schemas\n\n";
constexpr std::string_view kToolsTail =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool "
    "calls.\n";

std::string_view task_marker(Task task) {
  switch (task) {
    case Task::kNone:
      break;
    case Task::kAction:
      return "<｜action｜>";
    case Task::kQuery:
      return "<｜query｜>";
    case Task::kAuthority:
      return "<｜authority｜>";
    case Task::kDomain:
      return "<｜domain｜>";
    case Task::kTitle:
      return "<｜title｜>";
    case Task::kReadUrl:
      return "<｜read_url｜>";
  }
  return "";
}

// The arguments of a call as an object. JSON text of an object, or such text inside a JSON string;
// anything else becomes the value of one parameter named "arguments".
Json arguments_object(const std::string& text) {
  auto parsed = parse_json(text);
  if (parsed && parsed->is_string()) parsed = parse_json(parsed->get_ref<const std::string&>());
  if (parsed && parsed->is_object()) return std::move(*parsed);
  Json object = Json::object();
  object["arguments"] = text;
  return object;
}

std::string description_of(const Json& object) {
  const bool has = object.contains("description") && object["description"].is_string();
  return has ? object["description"].get<std::string>() : "";
}

// A function of a namespace as the prompt shows it: "namespace::name", the description of the
// namespace before its own.
Json qualified(const Json& function) {
  if (!function.contains("namespace") || function["namespace"].is_null()) return function;
  const Json& space = function["namespace"];
  const std::string prefix = (space.is_object() ? space["name"] : space).get<std::string>() + "::";
  Json out = function;
  out.erase("namespace");
  const std::string name = function["name"];
  if (!name.starts_with(prefix)) out["name"] = prefix + name;
  if (space.is_object() && !description_of(space).empty()) {
    out["description"] = description_of(space) + "\n" + description_of(function);
  }
  return out;
}

class ChatRenderer {
 public:
  ChatRenderer(const Conversation& conversation, std::vector<Turn> turns)
      : conversation_(conversation), turns_(std::move(turns)) {
    is_thinking_ = conversation.thinking.enabled;
    const bool has_tools = std::any_of(turns_.begin(), turns_.end(),
                                       [](const Turn& turn) { return !turn.tools.empty(); });
    keeps_all_reasoning_ = has_tools || !conversation.drop_old_reasoning;
    for (size_t i = 0; i < turns_.size(); ++i) {
      if (is_question(i)) last_question_ = static_cast<ptrdiff_t>(i);
    }
  }

  RenderedChat render() {
    out_.marker(kBeginMarker);
    if (is_thinking_ || turns_.front().kind == Turn::Kind::kSystem) out_.marker(kSystemMarker);
    if (is_thinking_) out_.text(fmt::format(kEffortLine, conversation_.thinking.effort));
    for (size_t i = 0; i < turns_.size(); ++i) {
      write_turn(i);
      write_transition(i);
    }
    const Turn& last = turns_.back();
    const bool needs_header = conversation_.add_generation_header && !header_is_open_;
    if (last.task == Task::kNone && !last.continues && needs_header) write_header(is_thinking_);
    RenderedChat chat;
    if (conversation_.tool_choice == ToolChoice::kRequired && header_is_open_) {
      out_.markup("\n\n<｜DSML｜ calls>\n");
      chat.starts_in_tool_calls = true;
    }
    chat.pieces = out_.take();
    chat.continues_text = last.continues;
    chat.starts_in_reasoning =
        last.continues ? continues_reasoning(last) : header_is_open_ && header_thinks_;
    return chat;
  }

 private:
  // A turn that the model answers: the user's, or a system turn in mid-conversation.
  bool is_answered(size_t i) const {
    return turns_[i].kind == Turn::Kind::kUser || (turns_[i].kind == Turn::Kind::kSystem && i > 0);
  }

  // Such a turn with more than results of tools: these go on with the question before.
  bool is_question(size_t i) const {
    const std::vector<TurnPart>& parts = turns_[i].parts;
    const bool only_results =
        !parts.empty() && std::all_of(parts.begin(), parts.end(),
                                      [](const TurnPart& part) { return part.is_tool_result; });
    return is_answered(i) && !only_results;
  }

  // Whether the reasoning of an answer at `i` is shown: none before the last question, unless tools
  // are in play.
  bool shows_reasoning(size_t i) const {
    return is_thinking_ && (keeps_all_reasoning_ || static_cast<ptrdiff_t>(i) > last_question_);
  }

  // A continued answer that has no text yet goes on with its reasoning.
  bool continues_reasoning(const Turn& turn) const {
    return is_thinking_ && turn.continues && turn.text.empty();
  }

  void write_header(bool thinks) {
    out_.marker(kAssistantMarker);
    out_.marker(thinks ? kThinkMarker : kThinkEndMarker);
    header_is_open_ = true;
    header_thinks_ = thinks;
  }

  void write_turn(size_t i) {
    const Turn& turn = turns_[i];
    switch (turn.kind) {
      case Turn::Kind::kSystem:
        write_system(turn, i);
        break;
      case Turn::Kind::kUser:
        header_is_open_ = false;
        out_.marker(kUserMarker);
        write_parts(turn.parts);
        break;
      case Turn::Kind::kAssistant:
        write_assistant(turn, i);
        break;
      case Turn::Kind::kLatestReminder:
        out_.marker(kLatestReminderMarker);
        out_.text(turn.text);
        break;
    }
  }

  void write_system(const Turn& turn, size_t i) {
    header_is_open_ = false;
    if (i > 0) out_.marker(kSystemMarker);
    out_.text(turn.text);
    if (!turn.tools.empty()) {
      out_.markup(kToolsHead);
      for (size_t t = 0; t < turn.tools.size(); ++t) {
        if (t > 0) out_.text("\n");
        out_.text(dump_python_style(qualified(turn.tools[t].function)));
      }
      out_.text(kToolsTail);
    }
    if (!turn.response_format.empty()) {  // {} asks for nothing
      out_.text(kResponseFormatHead);
      out_.text(dump_python_style(turn.response_format));
    }
  }

  void write_parts(const std::vector<TurnPart>& parts) {
    for (size_t p = 0; p < parts.size(); ++p) {
      if (p > 0) out_.text("\n\n");
      if (parts[p].is_tool_result) out_.text("<tool_result>");
      out_.text(parts[p].text);
      if (parts[p].is_tool_result) out_.text("</tool_result>");
    }
  }

  void write_assistant(const Turn& turn, size_t i) {
    const bool answers_task = i > 0 && turns_[i - 1].task != Task::kNone;
    if (!header_is_open_ && !answers_task) write_header(shows_reasoning(i));
    header_is_open_ = false;
    if (shows_reasoning(i) && !answers_task) {
      out_.text(turn.reasoning);
      if (continues_reasoning(turn)) return;
      out_.marker(kThinkEndMarker);
    }
    out_.text(turn.text);
    if (!turn.tool_calls.empty()) write_calls(turn.tool_calls);
    if (!turn.continues) out_.marker(kEndMarker);
  }

  void write_calls(const std::vector<ToolCall>& calls) {
    out_.markup("\n\n<｜DSML｜ calls>\n");
    for (const ToolCall& call : calls) {
      out_.markup("<｜DSML｜ invoke name=\"");
      out_.text(call.name);
      out_.text("\">\n");
      write_arguments(arguments_object(call.arguments));
      out_.markup("\n</｜DSML｜ invoke>\n");
    }
    out_.markup("</｜DSML｜ calls>");
  }

  void write_arguments(const Json& arguments) {
    bool is_first = true;
    for (const auto& [key, value] : arguments.items()) {
      if (!std::exchange(is_first, false)) out_.text("\n");
      out_.markup("<｜DSML｜ parameter name=\"");
      out_.text(key);
      out_.text(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
      out_.text(value.is_string() ? value.get_ref<const std::string&>() : dump_python_style(value));
      out_.markup("</｜DSML｜ parameter>");
    }
  }

  // What leads from a turn to the answer: a task marker or the assistant's header.
  void write_transition(size_t i) {
    const bool is_last = i + 1 == turns_.size();
    if (!is_last && turns_[i + 1].kind != Turn::Kind::kAssistant &&
        turns_[i + 1].kind != Turn::Kind::kLatestReminder) {
      return;
    }
    if (turns_[i].task != Task::kNone) {
      if (turns_[i].task == Task::kAction) write_header(is_thinking_);
      out_.marker(task_marker(turns_[i].task));
      header_is_open_ = false;
    } else if (is_answered(i) && (!is_last || conversation_.add_generation_header)) {
      write_header(is_thinking_ &&
                   (keeps_all_reasoning_ || static_cast<ptrdiff_t>(i) >= last_question_));
    }
  }

  const Conversation& conversation_;
  const std::vector<Turn> turns_;
  PromptWriter out_;
  bool is_thinking_ = false;
  bool keeps_all_reasoning_ = false;
  ptrdiff_t last_question_ = -1;  // index of the last turn that is a question, or -1
  bool header_is_open_ = false;   // an assistant's header stands, its answer does not follow yet
  bool header_thinks_ = false;    // that header ends with <think>
};

}  // namespace

std::string RenderedChat::to_text() const {
  std::string text;
  for (const PromptPiece& piece : pieces) text += piece.text;
  return text;
}

Result<RenderedChat> render_chat(const Conversation& conversation) {
  const int effort = conversation.thinking.effort;
  if (conversation.thinking.enabled && (effort < 1 || effort > 100)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("reasoning effort: 1 to 100 expected, found {}", effort));
  }
  TRY_ASSIGN(std::vector<Turn> turns, make_turns(conversation));
  if (conversation.tool_choice == ToolChoice::kRequired) {
    if (std::all_of(turns.begin(), turns.end(),
                    [](const Turn& turn) { return turn.tools.empty(); })) {
      return fail(ErrorCode::kInvalidArgument, "a tool call is required but there are no tools");
    }
    if (turns.back().continues || turns.back().task != Task::kNone) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("messages[{}]: a tool call is required, so this cannot be continued "
                              "or answered with a task",
                              conversation.messages.size() - 1));
    }
  }
  return ChatRenderer(conversation, std::move(turns)).render();
}

Result<std::vector<TokenId>> encode_chat(const RenderedChat& chat, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const PromptPiece& piece : chat.pieces) {
    if (!piece.is_marker) {
      tokenizer.encode_text(piece.text, ids);
      continue;
    }
    const auto id = tokenizer.marker(piece.text);
    if (!id) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("the tokenizer has no marker {}", piece.text));
    }
    ids.push_back(*id);
  }
  return ids;
}

}  // namespace yeoul
