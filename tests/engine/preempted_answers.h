#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yeoul {

// Runs of the real model in which one request is preempted before one step, compared with the run
// that nobody disturbs: tokens and logprobs, so that any other bit in the logits shows.
struct PreemptedAnswers {
  int64_t runs = 0;
  int64_t preemptions = 0;
  int64_t resumed = 0;                  // starts behind a kept state
  std::vector<std::string> violations;  // answers with other bits
};

// Every request of the run at one step in `stride` of it, computed again from nothing and, in as
// many runs, from the state kept of it. checkpoint: a folder; engram_map: the JSON file of its
// token map.
PreemptedAnswers preempt_every_answer(const std::string& checkpoint, const std::string& engram_map,
                                      int64_t stride);

}  // namespace yeoul
