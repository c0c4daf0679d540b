#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine_harness.h"

namespace yeoul {

// Prompts that go on from kept states of every kind, compared with cold runs of the same prompts.
struct PrefixHitReport {
  int64_t prompts = 0;
  int64_t disk_hits = 0;                // of the hits, those whose state came back from disk
  int64_t hits = 0;                     // prompts that went on from where they should
  std::vector<std::string> violations;  // other bits, or another place
};

struct PrefixHitModel {
  std::string checkpoint;
  std::string engram_map;
};

// Each prompt is asked twice: with the state in memory, and after a restart with it on disk.
// The states are at `positions` (around pages of 256 tokens, odd and even): kept at an interval, at
// an anchor with a cone of its own, one token before the end of a prompt, behind an answer. The
// rests that follow are those around every bound of the cone of this model, up to `rest_max`.
// Answers are tokens with their logprobs, so that any other bit in the logits shows.
PrefixHitReport compare_hits(const PrefixHitModel& model, const std::vector<int64_t>& positions,
                             int64_t rest_max);

}  // namespace yeoul
