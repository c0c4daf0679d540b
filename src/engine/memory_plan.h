#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/disk_stats.h"
#include "model/forward.h"
#include "model/kv_store.h"

namespace yeoul {

inline constexpr int32_t kTokensPerPage = 256;
inline constexpr int32_t kPagesPerSnapshot = 16;     // a state every 4,096 tokens
inline constexpr int32_t kSnapshotsPerSequence = 4;  // ends of its prompt, its anchors, its output

// What an operator may set; 0 is the default.
struct MemoryOptions {
  int64_t memory_bytes = 0;       // budget; default: what is available less a margin
  int32_t parallel = 16;          // running sequences
  int32_t queue_max = 256;        // waiting sequences beyond those
  int64_t context_max = 0;        // positions of a sequence; default: what the checkpoint allows
  int32_t step_tokens_max = 512;  // rows of one step
  int32_t logit_rows_max = 0;     // rows with logits in a step; default: parallel
  int num_threads = 1;
  bool prefix_cache = true;  // keep states of prompts for later ones
  DiskTierOptions disk;      // and on disk
};

// One buffer, or one kind of buffers.
struct MemoryRow {
  std::string name;
  int64_t num_bytes = 0;
  std::string note;
};

// Every buffer the engine will hold, computed from configuration before anything is loaded. Where
// all routed experts fit beside one sequence of full length they stay in memory, and the rest of
// the budget becomes KV pages, as many as `parallel` such sequences could use. Where they do not,
// a tenth of what is left may become pages of further sequences and the rest holds experts. A
// hundredth of what is left keeps Engram rows, a twentieth at most keeps snapshots of prompts: one
// for every kPagesPerSnapshot pages and some for each sequence. Engram scales are in memory where
// there is room for everything.
struct MemoryPlan {
  int64_t budget_bytes = 0;
  std::string budget_source;  // for the printed table
  std::vector<MemoryRow> rows;
  int64_t total_bytes = 0;
  int64_t context_max = 0;
  ForwardLimits forward;
  KvLimits kv;
  WeightPlacement weights;
};

// kResourceExhausted when the plan does not fit, with the table's total and a setting that would;
// kInvalidArgument when an option contradicts the checkpoint.
Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const MemoryOptions& options);

// A table, one row a buffer, ending with the total and the budget.
std::string to_string(const MemoryPlan& plan);

// "123.4 MiB"
std::string format_bytes(int64_t num_bytes);

}  // namespace yeoul
