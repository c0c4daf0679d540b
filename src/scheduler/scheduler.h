#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "scheduler/policy.h"
#include "scheduler/sequence.h"
#include "scheduler/step_plan.h"

namespace yeoul {

struct SchedulerLimits {
  int32_t parallel = 0;         // slots
  int32_t step_tokens_max = 0;  // rows of one step, at least `parallel`
  int32_t num_pages = 0;
  int32_t sequence_pages_max = 0;  // of one sequence
  int32_t tokens_per_page = 0;
  int32_t num_layers = 0;
  int32_t sequences_max = 0;  // waiting and running together
};

// A page of a plan that reserve_pages() has yet to name.
inline constexpr int32_t kUnassignedPage = -1;

// Who runs, and what each step computes. Keeps the waiting and the running sequences (borrowed) and
// the slots. A sequence is admitted when the pages for what it has to compute at once, and one to
// grow into, fit beside what the running ones hold and want. Pages themselves are taken as tokens
// come; when a step wants more than there are, victims give theirs back (preempt) and wait again.
// The pool is dry from then until a running sequence ends: meanwhile a sequence is admitted only if
// it could run to its end beside the running ones, so that nobody starts just to be put aside.
// Allocates at construction only. Thread-confined to the engine thread.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  void enqueue(Sequence& sequence);

  // The waiting sequence that may start now, or nullptr. Pure.
  Sequence* next_admission() const;

  // Gives it a slot; counts that it passed earlier arrivals.
  void admit(Sequence& sequence);

  // Ends a waiting or running sequence: slot and pages are free again.
  void remove(Sequence& sequence) noexcept;

  // Who gives its pages back when they run out, or nullptr when less than two run. Pure.
  Sequence* choose_victim() const;

  // Puts a running sequence back into the queue, in its old place.
  void preempt(Sequence& sequence) noexcept;

  // Writes what the next step computes, at most prefill_tokens_max tokens of prompts. Pure; the
  // capacity of plan's vectors is reused. Pages that the step needs anew are kUnassignedPage.
  void plan(uint64_t step_id, StepPlan& plan,
            int32_t prefill_tokens_max = std::numeric_limits<int32_t>::max()) const;

  // Rows of the next step that belong to streams under way.
  int32_t num_decode_rows() const;

  // Before the plan's sequences move on: counts what is computed of prompts, and whom it passes.
  void account(const StepPlan& plan) noexcept;

  // Times that a stated bound on waiting was passed, since creation. 0 unless there is a bug.
  int64_t bound_breaches() const { return bound_breaches_; }

  std::span<Sequence* const> waiting() const { return waiting_; }
  std::span<Sequence* const> running() const { return running_; }
  const SchedulerLimits& limits() const { return limits_; }

 private:
  RunningView view_running(const Sequence& sequence) const;
  void view_all_running() const;
  void leave_slot(Sequence& sequence) noexcept;
  int64_t wanted(const Sequence& sequence) const;
  void append_item(const Sequence& sequence, int32_t num_tokens, StepPlan& plan) const;

  const SchedulerLimits limits_;
  std::vector<Sequence*> waiting_;  // by arrival
  std::vector<Sequence*> running_;  // by admission
  std::vector<int32_t> free_slots_;
  bool is_dry_ = false;
  int64_t computed_prompt_tokens_ = 0;
  int64_t bound_breaches_ = 0;
  // Scratch, so that deciding does not allocate.
  mutable std::vector<WaitingView> waiting_views_;
  mutable std::vector<RunningView> running_views_;
  mutable std::vector<int32_t> granted_;
};

// Pages that sequences hold, each counted once: they share pages only at the front of their tables.
int64_t pages_held(std::span<Sequence* const> sequences);

// Reserves room in the plan's vectors for any plan within the limits.
void reserve_plan(const SchedulerLimits& limits, StepPlan& plan);

// Number of pages a plan needs anew.
int64_t page_demand(const StepPlan& plan);

// Names the unassigned pages of the plan, in order, from the reservation (which keeps them).
void assign_pages(const PageReservation& reserved, StepPlan& plan);

}  // namespace yeoul
