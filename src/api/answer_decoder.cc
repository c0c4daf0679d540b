#include "api/answer_decoder.h"

#include <algorithm>

namespace yeoul {

AnswerDecoder::AnswerDecoder(const AnswerRules& rules)
    : rules_(rules),
      end_of_reasoning_(rules.tokenizer->marker("</think>").value_or(-1)),
      detokenizer_(rules.tokenizer),
      parser_(rules.parser),
      stop_matcher_(rules.stop),
      in_reasoning_(!rules.plain_text && rules.parser.starts_in_reasoning) {}

void AnswerDecoder::push(TokenId token, std::vector<OutputEvent>& out) {
  if (ended_) return;
  const bool was_in_reasoning = in_reasoning_;
  if (std::ranges::find(rules_.stop_token_ids, token) == rules_.stop_token_ids.end()) {
    push_text(detokenizer_.push(token), out);
  }
  if (token == end_of_reasoning_) in_reasoning_ = false;
  if (was_in_reasoning && (in_reasoning_ || token == end_of_reasoning_)) ++num_reasoning_tokens_;
}

void AnswerDecoder::finish(std::vector<OutputEvent>& out) {
  if (ended_) return;
  push_text(detokenizer_.finish(), out);
  if (ended_) return;
  if (!rules_.plain_text) {
    parser_.finish(parsed_);
    filter(out);
  }
  if (!ended_) flush_content(out);
  ended_ = true;
}

void AnswerDecoder::push_text(std::string_view text, std::vector<OutputEvent>& out) {
  if (text.empty()) return;
  if (rules_.plain_text) {
    push_content(std::string(text), out);
    return;
  }
  parser_.push(text, parsed_);
  filter(out);
}

// Moves the parser's events to `out`, up to where the answer ends.
void AnswerDecoder::filter(std::vector<OutputEvent>& out) {
  for (OutputEvent& event : parsed_) {
    if (ended_) break;
    if (auto* content = std::get_if<ContentDelta>(&event)) {
      in_reasoning_ = false;
      push_content(std::move(content->text), out);
      continue;
    }
    if (std::holds_alternative<ToolCallBegin>(event)) {
      in_reasoning_ = false;
      flush_content(out);  // no stop string reaches across tool markup
      ++num_tool_calls_;
    }
    const bool is_end = std::holds_alternative<ToolCallEnd>(event);
    out.push_back(std::move(event));
    if (is_end && num_tool_calls_ >= rules_.max_tool_calls) ended_ = true;
  }
  parsed_.clear();
}

void AnswerDecoder::push_content(std::string text, std::vector<OutputEvent>& out) {
  if (rules_.stop.empty()) {
    if (!text.empty()) out.push_back(ContentDelta{std::move(text)});
    return;
  }
  StopMatcher::Output matched = stop_matcher_.push(text);
  if (!matched.text.empty()) out.push_back(ContentDelta{std::move(matched.text)});
  ended_ = matched.stopped;
}

void AnswerDecoder::flush_content(std::vector<OutputEvent>& out) {
  if (rules_.stop.empty()) return;
  std::string rest = stop_matcher_.finish();
  if (!rest.empty()) out.push_back(ContentDelta{std::move(rest)});
  stop_matcher_ = StopMatcher(rules_.stop);
}

}  // namespace yeoul
