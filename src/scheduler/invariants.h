#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "scheduler/scheduler.h"

namespace yeoul {

// What the scheduler claims at one moment between two steps, as plain data.
struct SchedulerSnapshot {
  struct Running {
    int32_t slot = 0;
    int64_t prompt_len = 0;
    int64_t prefill_len = 0;
    int64_t known_len = 0;
    int64_t committed_len = 0;
    int64_t output_max = 0;
    int64_t pages_max = 0;
    int64_t num_pages = 0;
    int64_t passed_tokens = 0;
  };
  std::vector<Running> running;
  std::vector<int32_t> waiting_passed_by;
  SchedulerLimits limits;
};

SchedulerSnapshot snapshot(const Scheduler& scheduler);

// kInternal, with the slot and the numbers, when one of these does not hold:
// - each running sequence has its own slot, and there are at most `parallel`;
// - a sequence holds exactly the pages of its committed positions, within what it may come to hold,
//   and that is within the pool;
// - a sequence past its prefill has exactly one known token that is not committed;
// - no waiting sequence was passed by more than kPassedByMax later arrivals;
// - no running one was passed by more than passed_tokens_max tokens of later prompts.
Result<void> check_scheduler(const SchedulerSnapshot& snapshot);

}  // namespace yeoul
