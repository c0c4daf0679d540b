#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/executor.h"

namespace yeoul::simulation {

// Time that passes only when told to.
class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  void advance(Duration duration) { now_ += duration; }

 private:
  TimePoint now_{};
};

// What the scripted model answers: a pure function of the request, so that a token that ended up in
// the wrong sequence, position or page shows as a difference.
struct Script {
  int32_t vocab_size = 64;
  uint64_t fault_seed = 0;
  double fault_rate = 0;  // of one (request, choice, position)
  // Steps that end with the loss of the device: at launch, or at collect. 0: never.
  uint64_t lose_at_launch = 0;
  uint64_t lose_at_collect = 0;

  TokenId token(uint64_t prompt_hash, uint64_t seed, int32_t choice, int64_t position) const;
  std::optional<RowStatus> fault(uint64_t prompt_hash, uint64_t seed, int32_t choice,
                                 int64_t position) const;
};

uint64_t hash_tokens(std::span<const TokenId> tokens);

// What the executor saw, for whoever runs the engine. Outlives both.
struct ExecutorLog {
  std::vector<std::string> violations;  // breaches of the contract between engine and executor
  std::vector<std::string> plans;       // serialized, when recording
  bool record_plans = false;
  int64_t slots_opened = 0;
  int64_t slots_open = 0;
  int64_t items_failed = 0;
  bool device_lost = false;
};

// An executor without a model. Remembers which prefix each row of each page belongs to, and checks
// every plan against it: positions, tokens, pages, cone and logits of each item.
// Allocates in its constructor only, unless it has something to report or record.
class ScriptedExecutor final : public Executor {
 public:
  struct Options {
    ModelShape shape;
    int32_t num_slots = 0;
    int32_t num_pages = 0;
    Script script;
    Duration step_latency = std::chrono::milliseconds(1);
    Duration token_latency = std::chrono::microseconds(10);
  };
  // `clock` may be null: no time passes then.
  ScriptedExecutor(const Options& options, VirtualClock* clock, ExecutorLog& log);

  ModelShape shape() const override { return options_.shape; }
  void open_slot(int32_t slot, const SlotSetup& setup) override;
  void close_slot(int32_t slot) override;
  Result<void> launch(const StepPlan& plan) override;
  Result<void> collect(StepResult& result) override;
  void commit(const StepPlan& plan, const StepResult& result,
              std::span<const int32_t> num_accepted) noexcept override;
  Result<SequenceImage> save(int32_t slot, std::span<const int32_t> pages) override;
  Result<void> restore(int32_t slot, std::span<const int32_t> pages,
                       const SequenceImage& image) override;

 private:
  struct Slot {
    bool is_open = false;
    uint64_t prompt_hash = 0;
    uint64_t seed = 0;
    int32_t choice = 0;
    int64_t prompt_len = 0;
    std::vector<TokenId> tokens;   // prompt and sampled
    std::vector<uint64_t> prefix;  // by committed position: hash of the tokens up to it
  };

  Slot& slot_of(const StepItem& item) { return slots_[static_cast<size_t>(item.slot)]; }
  void violation(const StepItem& item, const std::string& what);
  void check_item(const StepPlan& plan, const StepItem& item);
  void check_pages(const StepPlan& plan, const StepItem& item);
  uint64_t& row(const StepPlan& plan, const StepItem& item, int64_t position);
  void answer(const StepItem& item, ItemResult& result);

  const Options options_;
  VirtualClock* const clock_;
  ExecutorLog& log_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> rows_;          // page * tokens_per_page + offset: hash of the prefix
  std::vector<uint64_t> page_seen_in_;  // by page: stamp of the item that named it last
  uint64_t stamp_ = 0;
  const StepPlan* launched_ = nullptr;
  uint64_t committed_step_ = 0;
};

}  // namespace yeoul::simulation
