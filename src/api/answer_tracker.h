#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_decoder.h"
#include "api/errors.h"
#include "base/json.h"
#include "engine/event_stream.h"

namespace yeoul {

// Constant parts of every body and chunk of one answer. Plain data.
struct ResponseHeader {
  std::string id;       // "chatcmpl-..." or "cmpl-..."
  int64_t created = 0;  // seconds since 1970
  std::string model;
  std::string system_fingerprint;
};

// Token counts of an answer.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t output_tokens = 0;
  int64_t reasoning_tokens = 0;
};
Json to_json(const Usage& usage);

// What one engine event changed in one choice.
struct ChoiceUpdate {
  int choice = 0;                   // over all requests of the call
  std::vector<OutputEvent> events;  // adjacent events of one kind are joined
  std::optional<TokenEvent> token;  // absent when the choice only finished
  bool token_is_reasoning = false;
  bool token_is_stop = false;  // an end token: it has no text and no logprobs entry
  bool finished = false;
};

// Follows the engine events of one API call (one or several engine requests, each with the same
// number of choices): decodes every choice and knows how all of it ended. Thread-confined.
class AnswerTracker {
 public:
  AnswerTracker(const AnswerRules& rules, int num_requests, int choices_per_request);

  // nullptr when the event changes no choice. Valid until the next push.
  const ChoiceUpdate* push(int request_index, const RequestEvent& event);

  int num_choices() const { return static_cast<int>(choices_.size()); }
  bool ended() const { return num_requests_ended_ == num_requests_ || error_.has_value(); }
  const std::optional<ApiError>& error() const { return error_; }
  // "stop", "length" or "tool_calls"; nullptr while running.
  const char* finish_reason(int choice) const;
  // Tokens so far; end tokens count. The prompt is what set_prompt_tokens said.
  Usage usage() const;
  void set_prompt_tokens(int64_t num_tokens) { usage_.prompt_tokens = num_tokens; }
  const RequestTimings& timings() const { return timings_; }  // of the slowest request
  const PrefixReuse& reuse() const { return reuse_; }         // sums, and the first reason there is

 private:
  struct Choice {
    AnswerDecoder decoder;
    int64_t num_tokens = 0;
    std::optional<FinishReason> finished;
  };
  const ChoiceUpdate* push_token(int choice_index, const TokenEvent& event);
  const ChoiceUpdate* push_finished(int choice_index, FinishReason reason);
  void push_request_finished(const RequestFinished& event);

  const std::vector<TokenId> stop_token_ids_;
  const int num_requests_;
  const int choices_per_request_;
  std::vector<Choice> choices_;
  int num_requests_ended_ = 0;
  std::optional<ApiError> error_;
  Usage usage_;
  RequestTimings timings_;
  PrefixReuse reuse_;
  ChoiceUpdate update_;
};

}  // namespace yeoul
