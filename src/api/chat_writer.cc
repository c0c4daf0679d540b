#include "api/chat_writer.h"

#include <fmt/format.h>

#include "api/logprobs.h"
#include "base/counter_rng.h"

namespace yeoul {
namespace {

Json format_logprobs(const Json& content, const Json& reasoning) {
  Json out;
  out["content"] = content;
  if (!reasoning.empty()) out["reasoning_content"] = reasoning;
  return out;
}

uint64_t hash_text(std::string_view text) {
  uint64_t hash = text.size();
  for (const char c : text) hash = mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

}  // namespace

ChatWriter::ChatWriter(AnswerSetup setup) : AnswerWriter(std::move(setup)) {
  choices_.resize(static_cast<size_t>(tracker_.num_choices()));
}

// Unguessable because the response's own id is; the same for the streamed and the whole answer.
std::string ChatWriter::tool_call_id(int choice_index, int call_index) const {
  const uint64_t key = hash_text(setup_.header.id);
  const uint64_t where = (static_cast<uint64_t>(choice_index) << 32) |
                         static_cast<uint64_t>(static_cast<uint32_t>(call_index));
  return fmt::format("call_{:016x}{:016x}", counter_bits(key, where), counter_bits(~key, where));
}

void ChatWriter::note_logprobs(const ChoiceUpdate& update, Choice& choice) {
  if (!setup_.with_logprobs || !update.token || update.token_is_stop) return;
  Json& list = update.token_is_reasoning ? choice.logprobs_reasoning : choice.logprobs_content;
  list.push_back(format_token_logprob(*update.token, *setup_.rules.tokenizer));
}

Json ChatWriter::take_logprobs(Choice& choice) const {
  if (choice.logprobs_content.empty() && choice.logprobs_reasoning.empty()) return nullptr;
  Json out = format_logprobs(choice.logprobs_content, choice.logprobs_reasoning);
  choice.logprobs_content = Json::array();
  choice.logprobs_reasoning = Json::array();
  return out;
}

Json ChatWriter::delta_of(const OutputEvent& event, int choice_index) const {
  if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
    return Json{{"reasoning_content", reasoning->text}};
  }
  if (const auto* content = std::get_if<ContentDelta>(&event)) {
    return Json{{"content", content->text}};
  }
  Json call;
  if (const auto* begin = std::get_if<ToolCallBegin>(&event)) {
    call["index"] = begin->index;
    call["id"] = tool_call_id(choice_index, begin->index);
    call["type"] = "function";
    call["function"] = Json{{"name", begin->name}, {"arguments", ""}};
  } else if (const auto* arguments = std::get_if<ToolCallArgumentsDelta>(&event)) {
    call["index"] = arguments->index;
    call["function"] = Json{{"arguments", arguments->json}};
  } else {
    return nullptr;  // the end of a call and problems have no delta
  }
  Json delta;
  delta["tool_calls"] = Json::array({std::move(call)});
  return delta;
}

void ChatWriter::collect(const OutputEvent& event, Choice& choice, int choice_index) {
  if (const auto* problem = std::get_if<OutputProblem>(&event)) {
    choice.problems.push_back(problem->message);
    return;
  }
  if (setup_.stream) return;
  if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
    choice.reasoning += reasoning->text;
  } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
    choice.content += content->text;
  } else if (const auto* begin = std::get_if<ToolCallBegin>(&event)) {
    choice.tool_calls.push_back({tool_call_id(choice_index, begin->index), begin->name, ""});
  } else if (const auto* arguments = std::get_if<ToolCallArgumentsDelta>(&event)) {
    if (!choice.tool_calls.empty()) choice.tool_calls.back().arguments += arguments->json;
  }
}

void ChatWriter::append_delta(int choice_index, Json delta, const char* finish_reason,
                              std::string& out) {
  Choice& choice = choices_[static_cast<size_t>(choice_index)];
  if (!choice.wrote_role) {
    Json with_role{{"role", "assistant"}};
    // Clients that add up content start from a string, whatever comes first.
    if (!delta.contains("content")) with_role["content"] = "";
    with_role.update(delta);
    delta = std::move(with_role);
    choice.wrote_role = true;
  }
  Json entry;
  entry["index"] = choice_index;
  entry["delta"] = std::move(delta);
  entry["logprobs"] = take_logprobs(choice);
  entry["finish_reason"] = finish_reason == nullptr ? Json(nullptr) : Json(finish_reason);
  Json chunk = envelope(chunk_object());
  chunk["choices"] = Json::array({std::move(entry)});
  if (finish_reason != nullptr && !choice.problems.empty()) {
    chunk["yeoul"] = Json{{"problems", choice.problems}};
  }
  append_chunk(std::move(chunk), out);
}

void ChatWriter::write(const ChoiceUpdate& update, std::string& out) {
  Choice& choice = choices_[static_cast<size_t>(update.choice)];
  note_logprobs(update, choice);
  for (const OutputEvent& event : update.events) {
    collect(event, choice, update.choice);
    if (!setup_.stream) continue;
    Json delta = delta_of(event, update.choice);
    if (!delta.is_null()) append_delta(update.choice, std::move(delta), nullptr, out);
  }
  if (!setup_.stream) return;
  // The role goes out with the first token even if its text is still held back: clients time it.
  if (update.token && !choice.wrote_role) append_delta(update.choice, Json::object(), nullptr, out);
  if (update.finished) {
    append_delta(update.choice, Json::object(), tracker_.finish_reason(update.choice), out);
  }
}

std::string ChatWriter::body() const {
  Json out = envelope("chat.completion");
  Json list = Json::array();
  Json problems = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    Json message;
    message["role"] = "assistant";
    const bool only_calls = choice.content.empty() && !choice.tool_calls.empty();
    message["content"] = only_calls ? Json(nullptr) : Json(choice.content);
    if (!choice.reasoning.empty()) message["reasoning_content"] = choice.reasoning;
    for (const ToolCall& call : choice.tool_calls) {
      message["tool_calls"].push_back(
          Json{{"id", call.id},
               {"type", "function"},
               {"function", Json{{"name", call.name}, {"arguments", call.arguments}}}});
    }
    Json entry;
    entry["index"] = i;
    entry["message"] = std::move(message);
    entry["logprobs"] = setup_.with_logprobs
                            ? format_logprobs(choice.logprobs_content, choice.logprobs_reasoning)
                            : Json(nullptr);
    entry["finish_reason"] = tracker_.finish_reason(static_cast<int>(i));
    list.push_back(std::move(entry));
    for (const std::string& problem : choice.problems) problems.push_back(problem);
  }
  out["choices"] = std::move(list);
  out["usage"] = to_json(tracker_.usage());
  Json block = first_yeoul_block();
  block["timings"] = timings_block();
  block["prefix"] = prefix_block();
  if (!problems.empty()) block["problems"] = std::move(problems);
  out["yeoul"] = std::move(block);
  return dump_compact(out);
}

}  // namespace yeoul
