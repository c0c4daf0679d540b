#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace yeoul {

// What one step does: plain data that prints, compares and replays. Made by the scheduler, executed
// by the executor, later what ranks receive. Knows slots, page numbers, token ids and layer
// numbers; no tensor and no text.

// Which rows of an item produce logits (and one sampled token from the last of them).
enum class LogitsFor : uint8_t { kNone, kLastToken, kEveryToken };

// Half open. {0, num_layers} is the whole model; an item may stop after a layer and go on from
// there in a later step (layer-major prefill), the executor keeps its rows in between.
struct LayerRange {
  int32_t begin = 0;
  int32_t end = 0;
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// `cone_end` of an item whose rows all run through all its layers.
inline constexpr int64_t kFullSchedule = -1;

// A consecutive range of one sequence's tokens.
struct StepItem {
  int32_t slot = 0;         // index of the running sequence in the executor's tables
  int64_t position = 0;     // of the first token in the sequence
  int32_t num_tokens = 0;   // drafts included
  int32_t num_draft = 0;    // the last num_draft tokens are guesses that the step verifies
  int32_t first_token = 0;  // offset into StepPlan::tokens
  int32_t first_page = 0;   // offset into StepPlan::pages
  int32_t num_pages = 0;    // pages that hold positions 0 .. position + num_tokens - 1
  LayerRange layers;
  // Prompt length P when the rows may leave the decoder half early: a row goes on through layer L
  // only if position P-1 depends on it (docs/numerics.md, "the cone"). kFullSchedule: every row
  // runs all.
  int64_t cone_end = kFullSchedule;
  LogitsFor logits = LogitsFor::kNone;
  friend bool operator==(const StepItem&, const StepItem&) = default;
};

// tokens[token_index] is not known yet: it is what item `item` of step `step_id` sampled.
struct PendingToken {
  int32_t token_index = 0;
  uint64_t step_id = 0;
  int32_t item = 0;
  friend bool operator==(const PendingToken&, const PendingToken&) = default;
};

struct StepPlan {
  uint64_t step_id = 0;
  std::vector<StepItem> items;
  std::vector<TokenId> tokens;  // concatenated over items
  std::vector<int32_t> pages;   // concatenated page tables
  std::vector<PendingToken> pending;

  bool empty() const { return items.empty(); }
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

// One line an item, for logs and bug reports.
std::string to_string(const StepPlan& plan);

// JSON text; parse_step_plan(serialize(plan)) == plan.
std::string serialize(const StepPlan& plan);

// kCorrupt, naming the field, for text that is not such a plan or whose offsets leave its arrays;
// kInvalidArgument for text that is not JSON.
Result<StepPlan> parse_step_plan(std::string_view text);

}  // namespace yeoul
