#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/executor.h"
#include "text/tokenizer.h"

namespace yeoul::e2e {

// An executor without a model that answers what the prompt asks for, so that a client decides from
// outside what happens:
//   "say:TEXT"  answers TEXT (marker spellings in it become markers), then the end token
//   "fail:N"    the row of output token N is not finite
//   otherwise   answers "x" without end
// Each step takes `step_latency`.
class ScriptedTextExecutor final : public Executor {
 public:
  struct Options {
    ModelShape shape;
    int32_t num_slots = 0;
    Duration step_latency{0};
  };
  ScriptedTextExecutor(const Options& options, std::shared_ptr<const Tokenizer> tokenizer);

  ModelShape shape() const override { return options_.shape; }
  void open_slot(int32_t slot, const SlotSetup& setup) override;
  void close_slot(int32_t /*slot*/) override {}
  Result<void> launch(const StepPlan& plan) override;
  Result<void> collect(StepResult& result) override;
  void commit(const StepPlan&, const StepResult&, std::span<const int32_t>,
              std::span<const SnapshotSave>) noexcept override {}
  // What it answers depends on the prompt alone: there is no state to keep.
  void save_snapshot(int32_t, int32_t) noexcept override {}
  std::span<const int64_t> snapshot_first_valid(int32_t) const override { return first_valid_; }
  Result<SequenceImage> save(int32_t slot, std::span<const int32_t> pages) override;
  Result<void> restore(int32_t slot, std::span<const int32_t> pages,
                       const SequenceImage& image) override;

 private:
  struct Script {
    int64_t prompt_len = 0;
    int num_top_logprobs = -1;
    std::vector<TokenId> answer;  // empty: "x" without end
    int64_t fail_at = -1;
  };
  void answer(const StepItem& item, ItemResult& result) const;

  const Options options_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  TokenId filler_ = 0;
  std::vector<int64_t> first_valid_;  // by layer: everything
  std::vector<Script> slots_;
  const StepPlan* launched_ = nullptr;
};

}  // namespace yeoul::e2e
