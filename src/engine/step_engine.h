#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/bounded_queue.h"
#include "cache/invariants.h"
#include "cache/page_pool.h"
#include "cache/page_reservation.h"
#include "cache/prefix_index.h"
#include "engine/cache_reporter.h"
#include "engine/disk_tier.h"
#include "engine/engine.h"
#include "engine/live_request.h"
#include "engine/request_check.h"
#include "engine/wakeup.h"
#include "scheduler/invariants.h"
#include "scheduler/scheduler.h"
#include "scheduler/step_cost.h"

namespace yeoul {

// The engine's state between two steps, as plain data. The tables of `cache` are those of the
// running sequences, then those of the kept prefixes.
struct EngineSnapshot {
  CacheSnapshot cache;
  SchedulerSnapshot scheduler;
  int32_t num_requests = 0;
};

// The one implementation of Engine; others see it through Engine::create.
class StepEngine final : public Engine {
 public:
  static Result<std::unique_ptr<StepEngine>> create(EngineOptions options,
                                                    std::unique_ptr<Executor> executor,
                                                    const Clock& clock,
                                                    std::unique_ptr<BlobStore> store = nullptr);
  // Every request that has not ended is cancelled. No other call may be under way.
  ~StepEngine() override;

  Result<RequestHandle> submit(GenerateRequest request) override;
  StepOutcome step() override;
  void run(std::stop_token stop) override;
  void drain() override;
  bool idle() const override { return num_requests_.load() == 0; }
  EngineStats stats() const override;
  std::optional<CacheReport> cache_report(size_t nodes_max) const override;
  const EngineOptions& options() const override { return options_; }
  ModelShape shape() const override { return shape_; }
  bool healthy() const override { return healthy_.load(); }

  // Engine thread, between two steps.
  EngineSnapshot snapshot() const;
  const PrefixIndex& prefix_index() const { return index_; }
  const DiskTier* disk_tier() const { return disk_.get(); }  // null: there is none

 private:
  // What a slot of the executor belongs to.
  struct SlotOwner {
    LiveRequest* request = nullptr;
    int32_t choice = 0;
  };

  // What one item of the step leads to.
  struct Verdict {
    bool has_token = false;
    std::optional<FinishReason> finish;  // the choice ends with this token
  };

  StepEngine(const EngineOptions& options, std::unique_ptr<Executor> executor, const Clock& clock,
             std::unique_ptr<BlobStore> store);

  // The verbs of a step, in order.
  void drain_inbox();
  void cancel_overdue(TimePoint now);
  void admit();
  void pause_for_readers(TimePoint now);
  void plan_step();
  PageReservation reserve();
  void preempt(Sequence& sequence) noexcept;
  void preempt_as_told() noexcept;
  Result<void> run_plan(TimePoint now);
  void judge();
  void commit(PageReservation& pages) noexcept;
  void publish(TimePoint now);

  Result<RequestHandle> try_submit(GenerateRequest request);
  std::unique_ptr<LiveRequest> make_live(GenerateRequest request);
  Result<void> enqueue(std::unique_ptr<LiveRequest> live);
  Result<void> start(Sequence& sequence);
  bool joins_a_leader(Sequence& sequence, const LiveRequest& request);
  bool waits_for_disk(Sequence& sequence, LiveRequest& request);
  void take_restored();
  void finish_writing();
  void note_prefill_rate();
  bool give_way();
  SlotResume resume(Sequence& sequence, LiveRequest& request);
  SlotResume start_behind(Sequence& sequence, const PrefixLookup& found);
  void plan_anchors(Sequence& sequence, const LiveRequest& request, const PrefixLookup& found);
  void choose_saves();
  void insert_saved() noexcept;
  void keep_state(Sequence& sequence, uint64_t salt) noexcept;
  std::optional<int32_t> take_page();
  void judge_token(const StepItem& item, const ItemResult& result, Verdict& verdict);
  void publish_queue_positions();
  void publish_item(size_t index, TimePoint now);
  void push_progress(LiveRequest& request, ProgressEvent progress);
  void end_choice(LiveRequest& request, int32_t choice) noexcept;
  void fail_request(LiveRequest& request, Error error);
  void cancel(LiveRequest& request, Error error);
  void finish(LiveRequest& request);
  void finish_ended();
  StepOutcome lose_device(const Error& error);
  void shut_down();
  void refresh_gauges();
  void report_cache(CacheReporter::Storage& into) const;
  Duration time_to_next_limit() const;
  LiveRequest& request_of(const Sequence& sequence);
  SlotOwner& owner(const StepItem& item) { return slots_[static_cast<size_t>(item.slot)]; }

  // Constant after construction.
  EngineOptions options_;
  const ModelShape shape_;
  const RequestLimits limits_;
  const Clock& clock_;
  const std::shared_ptr<Wakeup> wakeup_;

  // Any thread.
  std::mutex submit_mutex_;  // a submission and "no more submissions" do not overlap
  std::atomic<bool> draining_{false};
  std::atomic<bool> healthy_{true};
  std::atomic<int32_t> num_sequences_{0};  // places taken: choices of requests that have not ended
  std::atomic<int32_t> num_requests_{0};   // terminal event not pushed yet
  std::atomic<int64_t> num_admitted_{0};
  std::atomic<int64_t> num_refused_{0};
  std::atomic<uint64_t> next_id_{1};
  std::atomic<uint64_t> next_arrival_{0};
  BoundedQueue<std::unique_ptr<LiveRequest>> inbox_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;  // copy of counters_
  mutable CacheReporter reporter_;

  // Engine thread. The pool outlives the sequences that hold its pages.
  PagePool pool_;
  PrefixIndex index_;
  Scheduler scheduler_;
  StepCost cost_;
  const std::unique_ptr<Executor> executor_;
  std::unique_ptr<DiskTier> disk_;  // null: there is none
  bool is_writing_ = false;         // states wait to be written
  double prefill_s_ = 0;            // of steps that mostly computed prompts
  int64_t prefill_tokens_ = 0;
  double step_s_ = 0;  // the last step took so long
  std::vector<std::unique_ptr<LiveRequest>> live_;
  std::vector<SlotOwner> slots_;
  EngineStats counters_;

  // Storage of one step, reserved once: nothing between plan and publish allocates.
  uint64_t next_step_id_ = 1;
  StepPlan plan_;
  StepResult result_;
  std::vector<int32_t> new_pages_;
  std::vector<Verdict> verdicts_;
  std::vector<int32_t> accepted_;
  std::vector<SnapshotSave> saves_;
  std::vector<int64_t> save_points_;
};

}  // namespace yeoul
