#pragma once

#include <memory>
#include <vector>

#include "api/answer_decoder.h"
#include "engine/token_constraint.h"

namespace yeoul {

// Ends a sequence at the token that completes a stop string or the last permitted tool call.
// It masks nothing. Thread-confined to the engine thread. Allocates only for texts longer than a
// small string, and only exists for requests that need it.
class StopConstraint final : public TokenConstraint {
 public:
  explicit StopConstraint(const AnswerRules& rules) : decoder_(rules) {}

  bool mask_next(std::span<uint64_t> /*allowed*/) override { return false; }
  Verdict accept(TokenId token) override;

 private:
  AnswerDecoder decoder_;
  std::vector<OutputEvent> events_;
};

// One constraint per choice, or none when nothing but stop tokens can end the answer.
std::vector<std::unique_ptr<TokenConstraint>> make_stop_constraints(const AnswerRules& rules,
                                                                    int num_choices);

}  // namespace yeoul
