// Prints the claim preempt for the checkpoints named on the command line, each a folder and its
// Engram map.

#include <fmt/format.h>

#include "engine/preempted_answers.h"

int main(int argc, char** argv) {
  int64_t runs = 0;
  int64_t preemptions = 0;
  int64_t violations = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const yeoul::PreemptedAnswers report = yeoul::preempt_every_answer(argv[i], argv[i + 1], 1);
    runs += report.runs;
    preemptions += report.preemptions;
    violations += std::ssize(report.violations);
    for (const std::string& what : report.violations) fmt::print("{}: {}\n", argv[i], what);
  }
  fmt::print(
      R"({{"name": "preempt", "value": {}, "unit": "answers with other bits than undisturbed in )"
      R"({} runs with {} preemptions, one at each step", "goal": 0, "holds": {}}})"
      "\n",
      violations, runs, preemptions, violations == 0 && preemptions > 0);
  return 0;
}
