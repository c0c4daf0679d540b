#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/event_stream.h"
#include "engine/request.h"
#include "scripted_executor.h"

namespace yeoul::simulation {

// Ends or breaks a choice after a number of tokens. Counts how many are alive, so that a test sees
// that the engine gives them up before the terminal event.
class CountingConstraint final : public TokenConstraint {
 public:
  struct Limits {
    int64_t end_after = 0;     // tokens; 0: never
    int64_t broken_after = 0;  // tokens; 0: never
  };
  CountingConstraint(Limits limits, int64_t& num_alive);
  ~CountingConstraint() override;

  bool mask_next(std::span<uint64_t>) override { return false; }
  Verdict accept(TokenId token) override;

 private:
  const Limits limits_;
  int64_t& num_alive_;
  int64_t num_accepted_ = 0;
};

// What is asked, kept by the test while the engine owns the request itself.
struct Question {
  std::vector<TokenId> prompt;
  uint64_t seed = 0;
  int32_t num_choices = 1;
  int64_t output_max = 0;  // max_tokens, or what the engine makes of 0
  std::vector<TokenId> stop_token_ids;
  std::vector<CountingConstraint::Limits> constraints;  // empty, or one per choice
  std::vector<int64_t> anchors;
};

// What the script makes of one choice when nothing from outside ends it.
struct ExpectedChoice {
  std::vector<TokenId> tokens;
  std::optional<FinishReason> finish;  // nullopt: it fails after those tokens
  ErrorCode error = ErrorCode::kInternal;
};
ExpectedChoice expected_choice(const Script& script, const ResumeShape& shape,
                               const Question& question, int32_t choice);

// Why a request may end with an error, besides what its own script says.
struct OutsideCauses {
  bool may_cancel = false;  // deadline or slow reader
  bool device_lost = false;
  bool admission_fails = false;
  bool shut_down = false;
};

// Compares the events of one request with its script as they come.
class AnswerCheck {
 public:
  AnswerCheck(const Script& script, const ResumeShape& shape, Question question);

  void take(const RequestEvent& event);

  // After the last event; adds to violations what the ending cannot be explained by.
  void check_ending(const OutsideCauses& causes);

  const Question& question() const { return question_; }
  const std::vector<TokenId>& expected_tokens(size_t choice) const {
    return choices_[choice].expected.tokens;
  }
  bool has_ended() const { return num_endings_ > 0; }
  int num_endings() const { return num_endings_; }
  const std::optional<Error>& error() const { return error_; }
  int64_t num_tokens() const { return num_tokens_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void take_event(const ProgressEvent& event);
  void take_event(const TokenEvent& event);
  void take_event(const ChoiceFinished& event);
  void take_event(const RequestFinished& event);
  bool is_own_failure(ErrorCode code) const;
  void violation(std::string what) { violations_.push_back(std::move(what)); }

  struct Choice {
    ExpectedChoice expected;
    size_t received = 0;
    std::optional<FinishReason> finished;
  };

  const Question question_;
  std::vector<Choice> choices_;
  int64_t num_tokens_ = 0;
  int64_t processed_tokens_ = 0;
  int num_endings_ = 0;
  std::optional<Error> error_;
  std::vector<std::string> violations_;
};

}  // namespace yeoul::simulation
