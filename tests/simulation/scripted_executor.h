#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/executor.h"
#include "scripted_model.h"

namespace yeoul::simulation {

// Time that passes only when told to.
class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration duration) { now_ += duration; }

 private:
  TimePoint now_{};
};

uint64_t hash_tokens(std::span<const TokenId> tokens);

// What the executor saw, for whoever runs the engine. Outlives both.
struct ExecutorLog {
  std::vector<std::string> violations;  // breaches of the contract between engine and executor
  std::vector<std::string> plans;       // serialized, when recording
  bool record_plans = false;
  int64_t slots_opened = 0;
  int64_t slots_open = 0;
  int64_t slots_resumed = 0;
  int64_t states_saved = 0;
  int64_t items_failed = 0;
  int64_t tokens_computed = 0;        // committed
  int64_t layer_tokens_computed = 0;  // tokens times the layers they passed through
  bool device_lost = false;
};

// An executor without a model. Remembers which prefix each row of each page belongs to, and checks
// every plan against it: positions, tokens, pages, cone and logits of each item, and that the
// window rows it reads are there. Allocates in its constructor only, unless it has something to
// report or record.
class ScriptedExecutor final : public Executor {
 public:
  struct Options {
    ModelShape shape;
    int32_t num_slots = 0;
    int32_t num_pages = 0;
    int32_t num_snapshots = 0;
    Script script;
    bool restores_wrongly = false;  // another state than the one asked for
    Duration step_latency = std::chrono::milliseconds(1);
    Duration token_latency = std::chrono::microseconds(10);  // of a token of a prompt
    Duration row_latency = std::chrono::microseconds(10);    // of a decode row
    double jitter = 0;  // of the duration of a step: a factor from 1 - jitter to 1 + jitter
  };
  // `clock` may be null: no time passes then.
  ScriptedExecutor(const Options& options, VirtualClock* clock, ExecutorLog& log);

  ModelShape shape() const override { return options_.shape; }
  void open_slot(int32_t slot, const SlotSetup& setup) override;
  void close_slot(int32_t slot) override;
  Result<void> launch(const StepPlan& plan) override;
  Result<void> collect(StepResult& result) override;
  void commit(const StepPlan& plan, const StepResult& result, std::span<const int32_t> num_accepted,
              std::span<const SnapshotSave> saves) noexcept override;
  void save_snapshot(int32_t slot, int32_t snapshot) noexcept override;
  std::span<const int64_t> snapshot_first_valid(int32_t snapshot) const override {
    return snapshots_.at(static_cast<size_t>(snapshot)).first_valid();
  }
  Result<SequenceImage> save(int32_t slot, std::span<const int32_t> pages) override;
  Result<void> restore(int32_t slot, std::span<const int32_t> pages,
                       const SequenceImage& image) override;

 private:
  struct Slot {
    explicit Slot(const ResumeShape& shape) : state(shape) {}
    bool is_open = false;
    uint64_t seed = 0;
    int32_t choice = 0;
    int64_t prefill_len = 0;       // tokens known when it was opened
    std::vector<TokenId> tokens;   // prompt and sampled
    std::vector<uint64_t> prefix;  // by committed position: hash of the tokens up to it
    ScriptedState state;           // as computed or restored
  };

  Slot& slot_of(const StepItem& item) { return slots_[static_cast<size_t>(item.slot)]; }
  void violation(const StepItem& item, const std::string& what);
  void check_item(const StepPlan& plan, const StepItem& item);
  void check_pages(const StepPlan& plan, const StepItem& item);
  void check_windows(const StepItem& item);
  uint64_t read_rows(const StepItem& item);
  void resume(Slot& slot, const SlotResume& from);
  void commit_token(const StepPlan& plan, const StepItem& item, int64_t position);
  uint64_t& row(const StepPlan& plan, const StepItem& item, int64_t position);
  void answer(const StepItem& item, ItemResult& result);

  const Options options_;
  VirtualClock* const clock_;
  ExecutorLog& log_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> rows_;          // page * tokens_per_page + offset: hash of the prefix
  std::vector<uint64_t> page_seen_in_;  // by page: stamp of the item that named it last
  uint64_t stamp_ = 0;
  std::vector<ScriptedState> snapshots_;
  ConeRows cone_;                 // of the item at hand
  std::vector<uint64_t> staged_;  // of the item at hand: by position, hash of the prefix
  const StepPlan* launched_ = nullptr;
  uint64_t committed_step_ = 0;
};

}  // namespace yeoul::simulation
