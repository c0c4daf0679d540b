#include "api/stop_constraint.h"

namespace yeoul {

TokenConstraint::Verdict StopConstraint::accept(TokenId token) {
  events_.clear();
  decoder_.push(token, events_);
  return decoder_.ended() ? Verdict::kEndAfter : Verdict::kContinue;
}

std::vector<std::unique_ptr<TokenConstraint>> make_stop_constraints(const AnswerRules& rules,
                                                                    int num_choices) {
  std::vector<std::unique_ptr<TokenConstraint>> constraints;
  if (rules.stop.empty() && rules.max_tool_calls == INT_MAX) return constraints;
  for (int i = 0; i < num_choices; ++i) {
    constraints.push_back(std::make_unique<StopConstraint>(rules));
  }
  return constraints;
}

}  // namespace yeoul
