#pragma once

#include <cstdint>
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
  int32_t tokens_per_page = 0;
  int32_t num_layers = 0;
  int32_t sequences_max = 0;  // waiting and running together
};

// A page of a plan that reserve_pages() has yet to name.
inline constexpr int32_t kUnassignedPage = -1;

// Who runs, and what each step computes. Keeps the waiting and the running sequences (borrowed),
// the slots, and the promise that makes reservation infallible: a sequence is admitted when the
// most pages it can come to hold fit beside what is promised to the running ones. Pages themselves
// are taken as tokens come. (Preemption will replace the promise.)
// Allocates at construction only. Thread-confined to the engine thread.
class Scheduler {
 public:
  explicit Scheduler(const SchedulerLimits& limits);

  void enqueue(Sequence& sequence);

  // The waiting sequence that may start now, or nullptr. Pure.
  Sequence* next_admission() const;

  // Gives it a slot and its promise; counts that it passed earlier arrivals.
  void admit(Sequence& sequence);

  // Ends a waiting or running sequence: slot, promise and pages are free again.
  void remove(Sequence& sequence) noexcept;

  // Writes what the next step computes. Pure; the capacity of plan's vectors is reused. Pages that
  // the step needs anew are kUnassignedPage.
  void plan(uint64_t step_id, StepPlan& plan) const;

  std::span<Sequence* const> waiting() const { return waiting_; }
  std::span<Sequence* const> running() const { return running_; }
  int64_t promised_pages() const { return promised_pages_; }
  const SchedulerLimits& limits() const { return limits_; }

 private:
  void append_item(const Sequence& sequence, int32_t num_tokens, StepPlan& plan) const;

  const SchedulerLimits limits_;
  std::vector<Sequence*> waiting_;  // by arrival
  std::vector<Sequence*> running_;  // by admission
  std::vector<int32_t> free_slots_;
  int64_t promised_pages_ = 0;
  // Scratch, so that deciding does not allocate.
  mutable std::vector<WaitingView> waiting_views_;
  mutable std::vector<RunningView> running_views_;
  mutable std::vector<int32_t> granted_;
};

// Reserves room in the plan's vectors for any plan within the limits.
void reserve_plan(const SchedulerLimits& limits, StepPlan& plan);

// Number of pages a plan needs anew.
int64_t page_demand(const StepPlan& plan);

// Names the unassigned pages of the plan, in order, from the reservation (which keeps them).
void assign_pages(const PageReservation& reserved, StepPlan& plan);

}  // namespace yeoul
