#include "preemption_runs.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/fault.h"
#include "house.h"

namespace yeoul::simulation {
namespace {

std::vector<Question> questions() {
  std::vector<Question> asked = {make_question(1, 37, 20), make_question(2, 5, 25),
                                 make_question(3, 90, 12)};
  asked[1].num_choices = 2;
  asked[1].constraints = {{.end_after = 9}, {}};
  asked[1].stop_token_ids = {7};
  asked[2].anchors = {30};
  return asked;
}

constexpr int kNobody = -1;

// Everything the readers saw, when request `who` is preempted before step `when`.
std::vector<Answer> run(const PreemptionRuns& runs, int who, int when, PreemptionReport& report,
                        int* num_steps = nullptr) {
  HouseOptions options;
  options.engine.step_tokens_max = 24;
  options.engine.num_snapshots = runs.num_snapshots;
  options.engine.snapshot_interval = 16;
  options.restores_wrongly = runs.restores_wrongly;
  House house(options);
  std::vector<RequestHandle> handles;
  for (const Question& question : questions()) handles.push_back(house.submit(question));
  int step = 0;
  const ScopedFault fault(FaultPoint::kPreemption, [&](uint64_t id) {
    return who != kNobody && step == when && id == handles[static_cast<size_t>(who)].id();
  });
  while (!house.engine->idle() && step < 1'000) {
    house.engine->step();
    ++step;
  }
  std::vector<Answer> answers;
  for (RequestHandle& handle : handles) answers.push_back(read(handle));
  report.preemptions += house.engine->stats().preemptions;
  report.resumed += house.log.slots_resumed;
  report.differences += runs.restores_wrongly ? 0 : std::ssize(house.log.violations);
  if (report.first_difference.empty() && !house.log.violations.empty())
    report.first_difference = house.log.violations.front();
  if (num_steps != nullptr) *num_steps = step;
  ++report.runs;
  return answers;
}

}  // namespace

PreemptionReport preempt_at_every_step(const PreemptionRuns& runs) {
  PreemptionReport report;
  int num_steps = 0;
  const std::vector<Answer> undisturbed =
      run({.num_snapshots = runs.num_snapshots}, kNobody, 0, report, &num_steps);
  for (int who = 0; who < std::ssize(undisturbed); ++who)
    for (int when = 0; when < num_steps; ++when) {
      const std::vector<Answer> answers = run(runs, who, when, report);
      for (size_t i = 0; i < answers.size(); ++i) {
        const bool is_same =
            answers[i].tokens == undisturbed[i].tokens &&
            answers[i].finished == undisturbed[i].finished && answers[i].ending &&
            answers[i].ending->status.has_value() &&
            answers[i].ending->output_tokens == undisturbed[i].ending->output_tokens;
        if (is_same) continue;
        ++report.differences;
        if (report.first_difference.empty())
          report.first_difference =
              fmt::format("answer {} when {} is preempted before step {}", i, who, when);
      }
    }
  return report;
}

}  // namespace yeoul::simulation
