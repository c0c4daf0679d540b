#include "expected_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace yeoul::simulation {

CountingConstraint::CountingConstraint(Limits limits, int64_t& num_alive)
    : limits_(limits), num_alive_(num_alive) {
  ++num_alive_;
}

CountingConstraint::~CountingConstraint() {
  --num_alive_;
}

TokenConstraint::Verdict CountingConstraint::accept(TokenId) {
  ++num_accepted_;
  if (num_accepted_ == limits_.broken_after) return Verdict::kBroken;
  if (num_accepted_ == limits_.end_after) return Verdict::kEndAfter;
  return Verdict::kContinue;
}

ExpectedChoice expected_choice(const Script& script, const ResumeShape& shape,
                               const Question& question, int32_t choice) {
  const auto prompt_len = static_cast<int64_t>(question.prompt.size());
  const CountingConstraint::Limits limits = question.constraints.empty()
                                                ? CountingConstraint::Limits{}
                                                : question.constraints[static_cast<size_t>(choice)];
  ExpectedChoice expected;
  std::vector<uint64_t> prefixes;
  for (int64_t position = 0;; ++position) {
    const TokenId known = position < prompt_len
                              ? question.prompt[static_cast<size_t>(position)]
                              : expected.tokens[static_cast<size_t>(position - prompt_len)];
    prefixes.push_back(extend(prefixes.empty() ? kEmptyPrefix : prefixes.back(), known));
    if (const auto fault = script.fault(prefixes.back())) {
      expected.error =
          *fault == RowStatus::kNonFinite ? ErrorCode::kInternal : ErrorCode::kUnavailable;
      return expected;
    }
    if (position < prompt_len - 1) continue;
    const TokenId token = script.token(digest_of(prefixes, shape), question.seed, choice, position);
    const int64_t num_tokens = std::ssize(expected.tokens) + 1;
    if (num_tokens == limits.broken_after) return expected;
    expected.tokens.push_back(token);
    const bool stops =
        std::ranges::find(question.stop_token_ids, token) != question.stop_token_ids.end();
    if (stops || num_tokens == limits.end_after)
      expected.finish = FinishReason::kStop;
    else if (num_tokens == question.output_max)
      expected.finish = FinishReason::kLength;
    if (expected.finish) return expected;
  }
}

AnswerCheck::AnswerCheck(const Script& script, const ResumeShape& shape, Question question)
    : question_(std::move(question)) {
  for (int32_t choice = 0; choice < question_.num_choices; ++choice)
    choices_.push_back({.expected = expected_choice(script, shape, question_, choice),
                        .received = 0,
                        .finished = std::nullopt});
}

void AnswerCheck::take(const RequestEvent& event) {
  if (has_ended()) violation("an event after the terminal event");
  std::visit([this](const auto& kind) { take_event(kind); }, event);
}

void AnswerCheck::take_event(const ProgressEvent& event) {
  if (event.prompt_tokens != std::ssize(question_.prompt)) violation("progress: prompt length");
  if (event.processed_tokens < processed_tokens_ || event.processed_tokens > event.prompt_tokens)
    violation(
        fmt::format("progress: {} tokens after {}", event.processed_tokens, processed_tokens_));
  processed_tokens_ = event.processed_tokens;
}

void AnswerCheck::take_event(const TokenEvent& event) {
  ++num_tokens_;
  Choice& choice = choices_.at(static_cast<size_t>(event.choice));
  if (choice.finished) violation(fmt::format("choice {}: a token after its end", event.choice));
  if (choice.received >= choice.expected.tokens.size())
    return violation(fmt::format("choice {}: token {} was not due", event.choice, choice.received));
  if (event.token != choice.expected.tokens[choice.received] ||
      event.logprob != -static_cast<float>(event.token))
    violation(fmt::format("choice {}: token {} is {}, the script says {}", event.choice,
                          choice.received, event.token, choice.expected.tokens[choice.received]));
  ++choice.received;
}

void AnswerCheck::take_event(const ChoiceFinished& event) {
  Choice& choice = choices_.at(static_cast<size_t>(event.choice));
  if (choice.finished) violation(fmt::format("choice {} finished twice", event.choice));
  choice.finished = event.reason;
  if (event.reason == FinishReason::kCancelled) return;
  if (event.reason != choice.expected.finish || choice.received != choice.expected.tokens.size())
    violation(fmt::format("choice {} finished with '{}' after {} tokens", event.choice,
                          to_string(event.reason), choice.received));
}

void AnswerCheck::take_event(const RequestFinished& event) {
  ++num_endings_;
  if (!event.status) error_ = event.status.error();
  if (event.prompt_tokens != std::ssize(question_.prompt)) violation("usage: prompt tokens");
  const PrefixReuse& reuse = event.reuse;
  if (reuse.cached_tokens < 0 || reuse.cached_tokens > reuse.candidate_tokens ||
      reuse.candidate_tokens > reuse.shared_tokens || reuse.shared_tokens >= event.prompt_tokens)
    violation(fmt::format("usage: {} of {} of {} of {} prompt tokens reused", reuse.cached_tokens,
                          reuse.candidate_tokens, reuse.shared_tokens, event.prompt_tokens));
  if (event.output_tokens != num_tokens_)
    violation(
        fmt::format("usage: {} output tokens, {} received", event.output_tokens, num_tokens_));
}

bool AnswerCheck::is_own_failure(ErrorCode code) const {
  return std::ranges::any_of(choices_, [code](const Choice& choice) {
    return !choice.expected.finish && choice.expected.error == code &&
           choice.received == choice.expected.tokens.size();
  });
}

void AnswerCheck::check_ending(const OutsideCauses& causes) {
  if (num_endings_ != 1) return violation(fmt::format("{} terminal events", num_endings_));
  const bool is_cancelled =
      error_ && (error_->code == ErrorCode::kCancelled ||
                 (causes.shut_down && error_->code == ErrorCode::kUnavailable));
  for (const Choice& choice : choices_) {
    if (!error_ && (!choice.finished || *choice.finished == FinishReason::kCancelled))
      violation("a choice did not finish, and no error says why");
    if (is_cancelled && !choice.finished && !is_own_failure(error_->code))
      violation("a choice of a cancelled request got no end");
    if (error_ && !is_cancelled && choice.finished == FinishReason::kCancelled)
      violation("a cancelled choice of a request that failed");
  }
  if (!error_ || is_own_failure(error_->code)) return;
  const ErrorCode code = error_->code;
  const bool is_explained = (code == ErrorCode::kCancelled && causes.may_cancel) ||
                            (code == ErrorCode::kInternal && causes.device_lost) ||
                            (code == ErrorCode::kResourceExhausted && causes.admission_fails) ||
                            (code == ErrorCode::kUnavailable && causes.shut_down);
  if (!is_explained) violation(fmt::format("ended with {}: {}", to_string(code), error_->message));
}

}  // namespace yeoul::simulation
