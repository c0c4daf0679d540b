#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "engine/executor.h"
#include "engine/loaded_model.h"
#include "sampling/sampler.h"
#include "sampling/token_counts.h"

namespace yeoul {

// Runs step plans on a loaded model on the CPU. One step at a time: a step must be committed before
// the next is launched (the staged window rows have room for one).
class ModelExecutor final : public Executor {
 public:
  explicit ModelExecutor(std::unique_ptr<LoadedModel> model);

  ModelShape shape() const override;
  WeightTraffic weight_traffic() const override;
  void open_slot(int32_t slot, const SlotSetup& setup) override;
  void close_slot(int32_t slot) override;
  Result<void> launch(const StepPlan& plan) override;
  Result<void> collect(StepResult& result) override;
  void commit(const StepPlan& plan, const StepResult& result, std::span<const int32_t> num_accepted,
              std::span<const SnapshotSave> saves) noexcept override;
  void save_snapshot(int32_t slot, int32_t snapshot) noexcept override;
  std::span<const int64_t> snapshot_first_valid(int32_t snapshot) const override;
  StateUnits state_units() const override;
  int64_t page_bytes(int64_t num_tokens) const override;
  void export_page(int32_t page, int64_t num_tokens, std::vector<uint8_t>& out) const override;
  Result<void> import_page(int32_t page, int64_t num_tokens,
                           std::span<const uint8_t> bytes) override;
  void export_state(int32_t snapshot, int64_t length, std::vector<uint8_t>& out) const override;
  Result<void> import_state(int32_t snapshot, int64_t length,
                            std::span<const uint8_t> bytes) override;
  Result<SequenceImage> save(int32_t slot, std::span<const int32_t> pages) override;
  Result<void> restore(int32_t slot, std::span<const int32_t> pages,
                       const SequenceImage& image) override;

  const LoadedModel& model() const { return *model_; }

 private:
  struct Slot {
    SlotSetup setup;
    std::vector<TokenId> tokens;  // committed; capacity for the whole context
    std::optional<TokenCounts> counts;
    bool is_open = false;
  };
  void resolve_pending(const StepPlan& plan);
  void commit_item(const ItemInput& item, int32_t num_accepted,
                   std::span<const SnapshotSave> saves) noexcept;
  void sample_item(const StepItem& item, const ItemOutcome& outcome, ItemResult& result);
  Slot& slot_at(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }

  std::unique_ptr<LoadedModel> model_;
  Sampler sampler_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> allowed_;  // constraint mask of the row at hand
  std::vector<TokenId> tokens_;    // of the step, pending ones resolved
  std::vector<ItemInput> items_;
  StepResult result_;       // of the last launched step
  bool is_staged_ = false;  // launched and not committed
};

}  // namespace yeoul
