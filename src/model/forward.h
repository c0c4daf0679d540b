#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/ops.h"
#include "backend/step_profile.h"
#include "base/result.h"
#include "model/cone.h"
#include "model/engram_hash.h"
#include "model/forward_buffers.h"
#include "model/kv_store.h"
#include "model/step_input.h"
#include "model/trace.h"
#include "model/weights.h"

namespace yeoul {

struct ForwardLimits {
  int32_t rows_max = 512;       // T of a step
  int32_t logit_rows_max = 16;  // rows that ask for logits
  int32_t items_max = 16;
  int32_t slots = 16;
  int32_t parked_rows_max = 0;  // per slot: rows that may wait between layers; 0: none may
  int64_t context_max = 4096;   // positions of a sequence
};

// Outcome of one item of a step. `error` is set when something the item needed failed; its rows
// then hold no meaning. Other items are not affected.
struct ItemOutcome {
  Result<void> status;
  int32_t first_logit_row = -1;  // rows in Forward::logits(); -1: none
  int32_t num_logit_rows = 0;
};

// The forward pass of the text model (model.md sections 3 and 4), written once, in the order of the
// paper. One call runs a step: rows of many sequences, prefill and decode mixed, each item through
// its own range of layers. Everything a row's result depends on is its own sequence.
// Thread-confined to the engine thread. run() does not allocate unless a trace is set or an item
// fails.
class Forward {
 public:
  Forward(const Weights& weights, const EngramHash& engram_hash, Ops& ops, KvStore& kv,
          const ForwardLimits& limits);

  static OpsLimits ops_limits(const ModelConfig& config, const ForwardLimits& limits);
  // Bytes of the step's buffers.
  static int64_t buffer_bytes(const ModelConfig& config, const ForwardLimits& limits);

  // Runs the step. Window rows and partial pairs stay staged until commit(). A step that breaks the
  // limits, or an item that starts at a layer where no rows of it are parked, is a programmer
  // error.
  void run(const StepInput& input, const Trace* trace = nullptr);

  // From now on steps and layers are marked in `profile`, which is borrowed; null ends it. The ops
  // fill it where they are ProfiledOps.
  void set_profile(StepProfile* profile) { profile_ = profile; }

  std::span<const ItemOutcome> outcomes() const { return outcomes_; }
  // Float32 logits of one logit row, [V].
  std::span<const float> logits(int32_t logit_row) const;

  // Commits the first num_accepted[i] rows of item i of the last run.
  void commit(const StepInput& input, std::span<const int32_t> num_accepted) noexcept;
  // The same for one item, or for a run of its rows: in order, and none twice.
  void commit_rows(const ItemInput& rows, int32_t num_accepted) noexcept;

  // The compressed ids a sequence needs from its last tokens, oldest first (for restore).
  std::vector<int32_t> history_of(std::span<const TokenId> tokens) const;

 private:
  void begin(const StepInput& input);
  void read_engram_rows(const StepInput& input);
  void run_layer(int32_t layer);
  void finish(const StepInput& input);
  void park(const StepInput& input, int32_t layer_end);
  void unpark(const StepInput& input, int32_t layer_begin);

  void choose_rows(int32_t layer);
  void hidden_rows(RowIndex rows, const float* pre, const Bf16* norm, Bf16* out);
  void attention_half(int32_t layer);
  void ffn_half(int32_t layer);
  void inject_engram(int32_t layer);
  void address_engram_item(int32_t e, const ItemInput& item);
  size_t engram_place(int32_t e, int32_t step_row) const;  // first of the row's columns

  void attention(int32_t layer, RowIndex rows);  // u -> out
  void queries(int32_t layer, RowIndex rows);
  void window_rows(int32_t layer, RowIndex rows, const Bf16* u);
  void publish(int32_t layer, RowIndex rows, const Bf16* u);
  int64_t pool_latents(int32_t layer, RowIndex rows, const Bf16* u);
  void select(int32_t layer, RowIndex rows);
  void moe(int32_t layer, RowIndex rows);  // u -> out
  void foresee_experts(int32_t layer, RowIndex rows);
  void group_by_expert(RowIndex rows);
  void run_experts(RowIndex rows);

  void linear(const Linear& linear, const Bf16* x, int64_t rows, Bf16* out);
  void linear(const Linear& linear, const Bf16* x, int64_t rows, float* out);
  void norm(const Bf16* weight, int64_t rows, int64_t width, Bf16* x);
  void rope(Bf16* x, RowIndex rows, int64_t heads, int64_t width, bool compressed, bool inverse);
  void fail_item(int32_t item, const Error& error);

  void trace_rows(std::string_view name, int32_t layer, const Bf16* x, RowIndex rows,
                  std::initializer_list<int64_t> row_shape) const;
  void trace_floats(std::string_view name, int32_t layer, const float* x,
                    std::initializer_list<int64_t> shape) const;
  void trace_streams(std::string_view name, int32_t layer) const;
  void trace_mixes(std::string_view half, int32_t layer, const float* pre) const;
  void trace_window(int32_t layer, RowIndex rows) const;
  void trace_compressed(int32_t layer, int64_t num_latents) const;
  void trace_index_queries(int32_t layer, int64_t rows) const;
  void trace_engram(int32_t layer, int32_t e, const std::vector<float>& gates) const;
  void trace_selection(int32_t layer, RowIndex rows, bool with_pool) const;

  const Weights& weights_;
  const ModelConfig& config_;
  const EngramHash& engram_hash_;
  Ops& ops_;
  KvStore& kv_;
  ForwardLimits limits_;
  Cone cone_;
  ForwardBuffers buffers_;
  std::vector<float> window_frequencies_, compressed_frequencies_;
  const Trace* trace_ = nullptr;
  StepProfile* profile_ = nullptr;

  // The step at hand.
  std::span<const ItemInput> items_;
  int32_t num_rows_ = 0;
  std::vector<ItemView> item_views_;
  std::vector<ItemOutcome> outcomes_;
  std::vector<int32_t> input_rows_, window_rows_, output_rows_;  // of the current layer
};

}  // namespace yeoul
