#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "cache/resume_rule.h"
#include "engine/request.h"
#include "engine/sequence_image.h"
#include "scheduler/step_plan.h"

namespace yeoul {

// What the engine needs to know about the model, and nothing more.
struct ModelShape {
  int32_t num_layers = 0;
  int32_t vocab_size = 0;
  int64_t context_max = 0;  // positions a sequence may have
  int32_t tokens_per_page = 0;
  int64_t bytes_per_page = 0;
  ResumeShape resume;  // its num_layers is the model's
};

// Where a slot starts: at the state saved under `snapshot`, which is that after the first `length`
// tokens of the sequence. The slot's page that holds position `length` is a copy: the executor
// copies the rows before `length` from one page to the other.
struct SlotResume {
  int32_t snapshot = -1;  // -1: at nothing
  int64_t length = 0;
  int32_t copy_from = -1;  // pages; -1: `length` ends a page
  int32_t copy_to = -1;
};

// What an executor must know about a running sequence, besides its tokens. Borrowed between
// open_slot and close_slot.
struct SlotSetup {
  const SamplingParams* sampling = nullptr;
  int32_t choice = 0;
  std::span<const TokenId> prompt;        // for the repetition penalty
  std::span<const TokenId> output;        // tokens sampled before it was preempted
  TokenConstraint* constraint = nullptr;  // may be null
  SlotResume resume;
};

// Keeps, under the number `snapshot`, the state of item `item` of a step after its first num_tokens
// tokens.
struct SnapshotSave {
  int32_t item = 0;
  int32_t num_tokens = 0;  // 1 .. those accepted of the item
  int32_t snapshot = 0;
};

enum class RowStatus : uint8_t {
  kOk,
  kNonFinite,   // the row's logits were not finite
  kReadFailed,  // a weight or Engram row that this item needed could not be read
};

// Result of one plan item. `token` and the logprobs are valid when the item asked for logits and
// the status is kOk.
struct ItemResult {
  RowStatus status = RowStatus::kOk;
  Error error;  // set when status is not kOk
  TokenId token = 0;
  float logprob = 0;
  int32_t num_top = 0;
  std::array<TopLogprob, kMaxTopLogprobs> top;
};

struct StepResult {
  uint64_t step_id = 0;
  std::vector<ItemResult> items;  // one per plan item
};

// What weights outside of memory cost since the start.
struct WeightTraffic {
  int64_t expert_hits = 0;  // experts that a layer step wanted and found in memory
  int64_t expert_misses = 0;
  int64_t expert_bytes_read = 0;
  double expert_wait_s = 0;  // nothing could be computed, because experts were being read
  int64_t engram_rows = 0;   // distinct Engram rows that steps wanted
  int64_t engram_rows_kept = 0;
  int64_t engram_reads = 0;
  double engram_wait_s = 0;
};

// What the disk tier keeps of this model, as bytes.
struct StateUnits {
  // Everything that bytes and their meaning depend on besides tokens. Empty: it keeps nothing.
  std::string identity;
  int64_t page_bytes = 0;  // rows of a full page
  int64_t state_bytes_max = 0;
};

// Runs step plans on a model. Two implementations: ModelExecutor, and the scripted one of the
// simulation. Thread-confined to the engine thread, which may launch the next step before it
// commits the last one.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual ModelShape shape() const = 0;
  virtual WeightTraffic weight_traffic() const { return {}; }

  // Makes `slot` hold a new sequence, empty or resumed. Pages of what it resumes are in place.
  virtual void open_slot(int32_t slot, const SlotSetup& setup) = 0;
  virtual void close_slot(int32_t slot) = 0;

  // Starts the step; collect waits for it and fills `result`. Neither allocates once every slot has
  // been used. A fault of one item is that item's status; others are not affected. An Error return
  // means the device is lost and every sequence with it: nothing but the destructor is called
  // after it, also for the slots that are open.
  virtual Result<void> launch(const StepPlan& plan) = 0;
  virtual Result<void> collect(StepResult& result) = 0;

  // Makes the first num_accepted[i] tokens of item i part of its sequence (window rows, partial
  // pairs, sampler counts) and forgets the rest. Called once per step, by step id, in order. 0 for
  // an item that failed or whose request ends with an error: its slot is closed next.
  // `saves`, in order of item and tokens, keeps states on the way. Does not allocate.
  virtual void commit(const StepPlan& plan, const StepResult& result,
                      std::span<const int32_t> num_accepted,
                      std::span<const SnapshotSave> saves) noexcept = 0;

  // Keeps the committed state of an open slot, between two steps. Does not allocate.
  virtual void save_snapshot(int32_t slot, int32_t snapshot) noexcept = 0;

  // By layer, the first position whose window row a saved state holds. Borrowed until it is saved
  // over.
  virtual std::span<const int64_t> snapshot_first_valid(int32_t snapshot) const = 0;

  // Rows of the first num_tokens positions of a page, and saved states, as bytes appended to `out`;
  // and back into a page that nobody reads yet, or under a number that holds no state: kCorrupt
  // when they do not fit the model. Between two steps. Appending within the capacity of `out` does
  // not allocate.
  virtual StateUnits state_units() const { return {}; }
  virtual int64_t page_bytes(int64_t /*num_tokens*/) const { return 0; }
  virtual void export_page(int32_t /*page*/, int64_t /*num_tokens*/,
                           std::vector<uint8_t>& /*out*/) const {}
  virtual Result<void> import_page(int32_t /*page*/, int64_t /*num_tokens*/,
                                   std::span<const uint8_t> /*bytes*/) {
    return fail(ErrorCode::kUnsupported, "this executor keeps nothing on disk");
  }
  virtual void export_state(int32_t /*snapshot*/, int64_t /*length*/,
                            std::vector<uint8_t>& /*out*/) const {}
  virtual Result<void> import_state(int32_t /*snapshot*/, int64_t /*length*/,
                                    std::span<const uint8_t> /*bytes*/) {
    return fail(ErrorCode::kUnsupported, "this executor keeps nothing on disk");
  }

  // The committed state of a slot, with the contents of its pages. restore() into an open, empty
  // slot whose `pages` are allocated; kInvalidArgument when the image is of another model, numerics
  // or version.
  virtual Result<SequenceImage> save(int32_t slot, std::span<const int32_t> pages) = 0;
  virtual Result<void> restore(int32_t slot, std::span<const int32_t> pages,
                               const SequenceImage& image) = 0;
};

}  // namespace yeoul
