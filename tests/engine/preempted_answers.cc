#include "engine/preempted_answers.h"

#include <fmt/format.h>

#include <utility>

#include "base/fault.h"
#include "engine/engine_harness.h"

namespace yeoul {
namespace {

constexpr int kNobody = -1;

// Prompts around the ends of pages and the reach of the windows; penalties, because what was
// generated before a preemption counts for them; two choices.
std::vector<GenerateRequest> requests() {
  std::vector<GenerateRequest> asked;
  asked.push_back(make_request(11, 250, 14));
  asked.push_back(make_request(12, 37, 18));
  asked.push_back(make_request(13, 150, 9));
  asked[0].sampling.frequency_penalty = 0.7F;
  asked[1].sampling.repetition_penalty = 1.3F;
  asked[1].num_choices = 2;
  asked[2].sampling.temperature = 0;
  return asked;
}

class Runs {
 public:
  Runs(const EngineHarnessOptions& options, PreemptedAnswers& report)
      : harness_(options), report_(report) {}

  void compare_all(int64_t stride) {
    std::vector<Outcome> undisturbed = run(kNobody, 0);
    const int64_t num_steps = harness_.engine().stats().steps;
    for (int who = 0; who < std::ssize(undisturbed); ++who)
      for (int64_t when = 0; when < num_steps; when += stride) {
        const std::vector<Outcome> outcomes = run(who, when);
        ++report_.runs;
        for (size_t i = 0; i < outcomes.size(); ++i)
          if (outcomes[i].answers != undisturbed[i].answers || !outcomes[i].status->has_value())
            report_.violations.push_back(
                fmt::format("answer {} when {} is preempted before step {}", i, who, when));
      }
    const EngineStats stats = harness_.engine().stats();
    report_.preemptions += stats.preemptions;
    report_.resumed += stats.prefix_hits;
  }

 private:
  std::vector<Outcome> run(int who, int64_t when) {
    const uint64_t first_id = next_id_;
    const int64_t steps_before = harness_.engine().stats().steps;
    std::vector<GenerateRequest> asked = requests();
    next_id_ += asked.size();
    bool is_done = false;  // a preempted request waits a turn, in which no step may come to pass
    const ScopedFault fault(FaultPoint::kPreemption, [&](uint64_t id) {
      const bool fires = !is_done && who != kNobody &&
                         id == first_id + static_cast<uint64_t>(who) &&
                         harness_.engine().stats().steps - steps_before >= when;
      is_done = is_done || fires;
      return fires;
    });
    return harness_.answer(std::move(asked));
  }

  EngineHarness harness_;
  PreemptedAnswers& report_;
  uint64_t next_id_ = 1;  // requests are numbered as they come
};

}  // namespace

PreemptedAnswers preempt_every_answer(const std::string& checkpoint, const std::string& engram_map,
                                      int64_t stride) {
  PreemptedAnswers report;
  for (const bool prefix_cache : {false, true})
    Runs({.parallel = 4,
          .step_tokens_max = 64,
          .context_max = 512,
          .prefix_cache = prefix_cache,
          .checkpoint = checkpoint,
          .engram_map = engram_map},
         report)
        .compare_all(stride);
  return report;
}

}  // namespace yeoul
