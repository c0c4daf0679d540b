#include "api/completion_writer.h"

#include <algorithm>

#include "api/logprobs.h"

namespace yeoul {
namespace {

// Every byte but UTF-8 continuation bytes begins a code point.
int64_t count_characters(std::string_view bytes) {
  return std::ranges::count_if(
      bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

CompletionWriter::CompletionWriter(AnswerSetup setup) : AnswerWriter(std::move(setup)) {
  choices_.resize(static_cast<size_t>(tracker_.num_choices()));
}

void CompletionWriter::note_logprobs(const ChoiceUpdate& update, Choice& choice) {
  if (!setup_.with_logprobs || !update.token || update.token_is_stop) return;
  const TokenEvent& event = *update.token;
  const Tokenizer& tokenizer = *setup_.rules.tokenizer;
  Logprobs& logprobs = choice.logprobs;
  logprobs.tokens.push_back(std::string(tokenizer.token_bytes(event.token)));
  logprobs.token_logprobs.push_back(wire_logprob(event.logprob));
  Json top = Json::object();
  for (int32_t i = 0; i < event.num_top; ++i) {
    const TopLogprob& candidate = event.top[static_cast<size_t>(i)];
    top[std::string(tokenizer.token_bytes(candidate.token))] = wire_logprob(candidate.logprob);
  }
  logprobs.top_logprobs.push_back(std::move(top));
  logprobs.text_offset.push_back(choice.num_characters);
  choice.num_characters += count_characters(tokenizer.token_bytes(event.token));
}

Json CompletionWriter::format_choice(size_t index, std::string text,
                                     const Logprobs& logprobs) const {
  Json entry;
  entry["index"] = index;
  entry["text"] = std::move(text);
  entry["logprobs"] = nullptr;
  if (setup_.with_logprobs) {
    entry["logprobs"] = Json{{"tokens", logprobs.tokens},
                             {"token_logprobs", logprobs.token_logprobs},
                             {"top_logprobs", logprobs.top_logprobs},
                             {"text_offset", logprobs.text_offset}};
  }
  const char* reason = tracker_.finish_reason(static_cast<int>(index));
  entry["finish_reason"] = reason == nullptr ? Json(nullptr) : Json(reason);
  return entry;
}

void CompletionWriter::write(const ChoiceUpdate& update, std::string& out) {
  const size_t index = static_cast<size_t>(update.choice);
  Choice& choice = choices_[index];
  note_logprobs(update, choice);
  std::string text;
  for (const OutputEvent& event : update.events) {
    if (const auto* content = std::get_if<ContentDelta>(&event)) text += content->text;
  }
  if (!setup_.stream) {
    choice.text += text;
    return;
  }
  if (text.empty() && choice.wrote_chunk && !update.finished) return;
  Json chunk = envelope(chunk_object());
  chunk["choices"] = Json::array({format_choice(index, std::move(text), choice.logprobs)});
  choice.logprobs = Logprobs{};
  choice.wrote_chunk = true;
  append_chunk(std::move(chunk), out);
}

std::string CompletionWriter::body() const {
  Json out = envelope("text_completion");
  Json list = Json::array();
  for (size_t i = 0; i < choices_.size(); ++i) {
    list.push_back(format_choice(i, choices_[i].text, choices_[i].logprobs));
  }
  out["choices"] = std::move(list);
  out["usage"] = to_json(tracker_.usage());
  Json block = first_yeoul_block();
  block["timings"] = timings_block();
  block["prefix"] = prefix_block();
  out["yeoul"] = std::move(block);
  return dump_compact(out);
}

}  // namespace yeoul
