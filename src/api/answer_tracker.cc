#include "api/answer_tracker.h"

#include <algorithm>

namespace yeoul {
namespace {

// Joins adjacent deltas of the same kind, so that one token makes one chunk.
void join_adjacent(std::vector<OutputEvent>& events) {
  std::vector<OutputEvent> joined;
  for (OutputEvent& event : events) {
    if (!joined.empty()) {
      auto* last_content = std::get_if<ContentDelta>(&joined.back());
      auto* last_reasoning = std::get_if<ReasoningDelta>(&joined.back());
      auto* last_arguments = std::get_if<ToolCallArgumentsDelta>(&joined.back());
      if (auto* next = std::get_if<ContentDelta>(&event); next && last_content) {
        last_content->text += next->text;
        continue;
      }
      if (auto* next = std::get_if<ReasoningDelta>(&event); next && last_reasoning) {
        last_reasoning->text += next->text;
        continue;
      }
      if (auto* next = std::get_if<ToolCallArgumentsDelta>(&event);
          next && last_arguments && last_arguments->index == next->index) {
        last_arguments->json += next->json;
        continue;
      }
    }
    joined.push_back(std::move(event));
  }
  events = std::move(joined);
}

}  // namespace

Json to_json(const Usage& usage) {
  Json out;
  out["prompt_tokens"] = usage.prompt_tokens;
  out["completion_tokens"] = usage.output_tokens;
  out["total_tokens"] = usage.prompt_tokens + usage.output_tokens;
  out["prompt_tokens_details"] = Json{{"cached_tokens", usage.cached_tokens}};
  out["completion_tokens_details"] = Json{{"reasoning_tokens", usage.reasoning_tokens}};
  return out;
}

AnswerTracker::AnswerTracker(const AnswerRules& rules, int num_requests, int choices_per_request)
    : stop_token_ids_(rules.stop_token_ids),
      num_requests_(num_requests),
      choices_per_request_(choices_per_request) {
  choices_.reserve(static_cast<size_t>(num_requests) * static_cast<size_t>(choices_per_request));
  for (int i = 0; i < num_requests * choices_per_request; ++i) {
    choices_.push_back({AnswerDecoder(rules), 0, std::nullopt});
  }
}

const ChoiceUpdate* AnswerTracker::push(int request_index, const RequestEvent& event) {
  const int first_choice = request_index * choices_per_request_;
  if (const auto* token = std::get_if<TokenEvent>(&event)) {
    return push_token(first_choice + token->choice, *token);
  }
  if (const auto* finished = std::get_if<ChoiceFinished>(&event)) {
    return push_finished(first_choice + finished->choice, finished->reason);
  }
  if (const auto* finished = std::get_if<RequestFinished>(&event)) {
    push_request_finished(*finished);
  }
  return nullptr;
}

const ChoiceUpdate* AnswerTracker::push_token(int choice_index, const TokenEvent& event) {
  Choice& choice = choices_[static_cast<size_t>(choice_index)];
  update_ = ChoiceUpdate{};
  update_.choice = choice_index;
  update_.token = event;
  update_.token_is_stop = std::ranges::find(stop_token_ids_, event.token) != stop_token_ids_.end();
  const int64_t reasoning_before = choice.decoder.num_reasoning_tokens();
  choice.decoder.push(event.token, update_.events);
  update_.token_is_reasoning = choice.decoder.num_reasoning_tokens() > reasoning_before;
  ++choice.num_tokens;
  join_adjacent(update_.events);
  return &update_;
}

const ChoiceUpdate* AnswerTracker::push_finished(int choice_index, FinishReason reason) {
  Choice& choice = choices_[static_cast<size_t>(choice_index)];
  update_ = ChoiceUpdate{};
  update_.choice = choice_index;
  choice.finished = reason;
  // A choice that was cut off shows nothing more; RequestFinished brings the error.
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) return nullptr;
  choice.decoder.finish(update_.events);
  if (reason == FinishReason::kLength) {  // markup that was cut off is no fault of the model
    std::erase_if(update_.events, [](const OutputEvent& event) {
      return std::holds_alternative<OutputProblem>(event);
    });
  }
  join_adjacent(update_.events);
  update_.finished = true;
  return &update_;
}

void AnswerTracker::push_request_finished(const RequestFinished& event) {
  ++num_requests_ended_;
  if (!event.status && !error_) error_ = ApiError(event.status.error());
  usage_.cached_tokens += event.reuse.cached_tokens;
  reuse_.shared_tokens += event.reuse.shared_tokens;
  reuse_.candidate_tokens += event.reuse.candidate_tokens;
  reuse_.cached_tokens += event.reuse.cached_tokens;
  reuse_.seconds_saved += event.reuse.seconds_saved;
  if (*reuse_.tier == 'n') reuse_.tier = event.reuse.tier;  // none so far
  if (*reuse_.reason == '\0') reuse_.reason = event.reuse.reason;
  timings_.queue_s = std::max(timings_.queue_s, event.timings.queue_s);
  timings_.prefill_s = std::max(timings_.prefill_s, event.timings.prefill_s);
  timings_.decode_s = std::max(timings_.decode_s, event.timings.decode_s);
}

const char* AnswerTracker::finish_reason(int choice) const {
  const Choice& state = choices_[static_cast<size_t>(choice)];
  if (!state.finished) return nullptr;
  if (*state.finished == FinishReason::kLength) return "length";
  return state.decoder.num_tool_calls() > 0 ? "tool_calls" : "stop";
}

Usage AnswerTracker::usage() const {
  Usage usage = usage_;
  for (const Choice& choice : choices_) {
    usage.output_tokens += choice.num_tokens;
    usage.reasoning_tokens += choice.decoder.num_reasoning_tokens();
  }
  return usage;
}

}  // namespace yeoul
