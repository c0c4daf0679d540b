#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace yeoul {

namespace {

WaitingView view_waiting(const Sequence& sequence, int64_t tokens_per_page) {
  return {.arrival = sequence.spec().arrival,
          .priority = sequence.spec().priority,
          .passed_by = sequence.passed_by(),
          .pages_max = sequence.pages_max(tokens_per_page),
          .is_held = sequence.is_held()};
}

RunningView view_running(const Sequence& sequence) {
  return {.arrival = sequence.spec().arrival,
          .priority = sequence.spec().priority,
          .prompt_len = sequence.prompt_len(),
          .known_len = sequence.known_len(),
          .committed_len = sequence.committed_len(),
          .item_end_max = sequence.cone_end(),
          .is_paused = sequence.is_paused()};
}

}  // namespace

Scheduler::Scheduler(const SchedulerLimits& limits) : limits_(limits) {
  CHECK(limits.step_tokens_max >= limits.parallel, "{} tokens a step for {} sequences",
        limits.step_tokens_max, limits.parallel);
  const auto parallel = static_cast<size_t>(limits.parallel);
  const auto sequences_max = static_cast<size_t>(limits.sequences_max);
  waiting_.reserve(sequences_max);
  waiting_views_.reserve(sequences_max);
  running_.reserve(parallel);
  running_views_.reserve(parallel);
  granted_.reserve(parallel);
  free_slots_.reserve(parallel);
  for (int32_t slot = limits.parallel; slot-- > 0;) free_slots_.push_back(slot);
}

void Scheduler::enqueue(Sequence& sequence) {
  CHECK(waiting_.size() < waiting_.capacity(), "{} sequences wait already", waiting_.size());
  waiting_.push_back(&sequence);
}

Sequence* Scheduler::next_admission() const {
  if (free_slots_.empty() || waiting_.empty()) return nullptr;
  waiting_views_.clear();
  for (const Sequence* sequence : waiting_)
    waiting_views_.push_back(view_waiting(*sequence, limits_.tokens_per_page));
  const AdmissionRoom room = {.slots = static_cast<int32_t>(free_slots_.size()),
                              .pages = limits_.num_pages - promised_pages_};
  const std::optional<size_t> chosen = choose_admission(waiting_views_, room);
  return chosen ? waiting_[*chosen] : nullptr;
}

void Scheduler::admit(Sequence& sequence) {
  CHECK(!free_slots_.empty());
  CHECK(std::erase(waiting_, &sequence) == 1, "not waiting");
  for (Sequence* other : waiting_)
    if (other->spec().arrival < sequence.spec().arrival && !other->is_held()) other->note_passed();
  sequence.start(free_slots_.back());
  free_slots_.pop_back();
  running_.push_back(&sequence);
  promised_pages_ += sequence.pages_max(limits_.tokens_per_page);
}

void Scheduler::remove(Sequence& sequence) noexcept {
  if (sequence.phase() == Sequence::Phase::kRunning) {
    CHECK(std::erase(running_, &sequence) == 1, "not running");
    free_slots_.push_back(sequence.slot());
    promised_pages_ -= sequence.pages_max(limits_.tokens_per_page);
    for (Sequence* other : waiting_)
      if (other->leader() == &sequence) other->stop_waiting();
  } else {
    CHECK(std::erase(waiting_, &sequence) == 1, "not waiting");
  }
  sequence.end();
}

void Scheduler::plan(uint64_t step_id, StepPlan& plan) const {
  plan.step_id = step_id;
  plan.items.clear();
  plan.tokens.clear();
  plan.pages.clear();
  plan.pending.clear();
  running_views_.clear();
  for (const Sequence* sequence : running_) running_views_.push_back(view_running(*sequence));
  granted_.resize(running_.size());
  grant_tokens(running_views_, limits_.step_tokens_max, granted_);
  for (size_t i = 0; i < running_.size(); ++i)
    if (granted_[i] > 0) append_item(*running_[i], granted_[i], plan);
}

void Scheduler::append_item(const Sequence& sequence, int32_t num_tokens, StepPlan& plan) const {
  const int64_t begin = sequence.committed_len();
  const int64_t end = begin + num_tokens;
  const bool is_prefill = begin < sequence.prompt_len();
  StepItem item;
  item.slot = sequence.slot();
  item.position = begin;
  item.num_tokens = num_tokens;
  item.first_token = static_cast<int32_t>(plan.tokens.size());
  item.first_page = static_cast<int32_t>(plan.pages.size());
  item.num_pages = static_cast<int32_t>(pages_for(end, limits_.tokens_per_page));
  item.layers = {0, limits_.num_layers};
  // Rows of a prompt need not go further than its last position does (the cone); a decode row is
  // its own last position.
  item.cone_end = is_prefill ? sequence.cone_end() : kFullSchedule;
  item.logits = end == sequence.known_len() ? LogitsFor::kLastToken : LogitsFor::kNone;
  for (int64_t position = begin; position < end; ++position)
    plan.tokens.push_back(sequence.token_at(position));
  const std::span<const int32_t> pages = sequence.page_table().pages();
  plan.pages.insert(plan.pages.end(), pages.begin(), pages.end());
  plan.pages.resize(static_cast<size_t>(item.first_page) + static_cast<size_t>(item.num_pages),
                    kUnassignedPage);
  plan.items.push_back(item);
}

void reserve_plan(const SchedulerLimits& limits, StepPlan& plan) {
  plan.items.reserve(static_cast<size_t>(limits.parallel));
  plan.tokens.reserve(static_cast<size_t>(limits.step_tokens_max));
  // Each table is within its sequence's promise, and the promises are within the pool.
  plan.pages.reserve(static_cast<size_t>(limits.num_pages));
}

int64_t page_demand(const StepPlan& plan) {
  return std::count(plan.pages.begin(), plan.pages.end(), kUnassignedPage);
}

void assign_pages(const PageReservation& reserved, StepPlan& plan) {
  size_t next = 0;
  for (int32_t& page : plan.pages)
    if (page == kUnassignedPage) page = reserved.remaining()[next++];
  CHECK(next == reserved.remaining().size(), "{} pages named of {}", next,
        reserved.remaining().size());
}

}  // namespace yeoul
