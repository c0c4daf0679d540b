#include "scheduler/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace yeoul {

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

RunningView Scheduler::view_running(const Sequence& sequence) const {
  return {.arrival = sequence.spec().arrival,
          .priority = sequence.spec().priority,
          .prefill_len = sequence.prefill_len(),
          .known_len = sequence.known_len(),
          .committed_len = sequence.committed_len(),
          .waited = computed_prompt_tokens_ - sequence.computed_at_enqueue(),
          .item_end_max = sequence.cone_end(),
          .is_paused = sequence.is_paused()};
}

void Scheduler::enqueue(Sequence& sequence) {
  CHECK(waiting_.size() < waiting_.capacity(), "{} sequences wait already", waiting_.size());
  sequence.note_enqueued(computed_prompt_tokens_);
  waiting_.push_back(&sequence);
}

// A paused sequence gives nothing back for now, so nobody waits for its end.
int64_t Scheduler::wanted(const Sequence& sequence) const {
  const bool any_proceeds =
      std::ranges::any_of(running_, [](const Sequence* running) { return !running->is_paused(); });
  return is_dry_ && any_proceeds ? sequence.pages_max(limits_.tokens_per_page)
                                 : sequence.pages_wanted(limits_.tokens_per_page);
}

Sequence* Scheduler::next_admission() const {
  if (free_slots_.empty() || waiting_.empty()) return nullptr;
  waiting_views_.clear();
  for (const Sequence* sequence : waiting_)
    waiting_views_.push_back(
        {.arrival = sequence->spec().arrival,
         .priority = sequence->spec().priority,
         .rest = {.tokens = sequence->expected_rest(),
                  .waited = computed_prompt_tokens_ - sequence->computed_at_enqueue()},
         .passed_by = sequence->passed_by(),
         .pages = wanted(*sequence),
         .is_held = sequence->is_held()});
  int64_t taken = pages_held(running_);
  for (const Sequence* sequence : running_)
    taken += std::max<int64_t>(0, wanted(*sequence) - std::ssize(sequence->page_table().pages()));
  const AdmissionRoom room = {.slots = static_cast<int32_t>(free_slots_.size()),
                              .pages = limits_.num_pages - taken};
  const std::optional<size_t> chosen = choose_admission(waiting_views_, room);
  return chosen ? waiting_[*chosen] : nullptr;
}

void Scheduler::admit(Sequence& sequence) {
  CHECK(!free_slots_.empty());
  CHECK(std::erase(waiting_, &sequence) == 1, "not waiting");
  for (Sequence* other : waiting_) {
    if (other->spec().arrival >= sequence.spec().arrival || other->is_held()) continue;
    other->note_passed();
    bound_breaches_ += other->passed_by() > kPassedByMax;
  }
  sequence.start(free_slots_.back());
  free_slots_.pop_back();
  running_.push_back(&sequence);
}

void Scheduler::remove(Sequence& sequence) noexcept {
  if (sequence.phase() == Sequence::Phase::kRunning) {
    leave_slot(sequence);
    is_dry_ = false;
  } else {
    CHECK(std::erase(waiting_, &sequence) == 1, "not waiting");
  }
  sequence.end();
}

void Scheduler::leave_slot(Sequence& sequence) noexcept {
  CHECK(std::erase(running_, &sequence) == 1, "not running");
  free_slots_.push_back(sequence.slot());
  for (Sequence* other : waiting_)
    if (other->leader() == &sequence) other->stop_waiting();
}

void Scheduler::view_all_running() const {
  running_views_.clear();
  for (const Sequence* sequence : running_) running_views_.push_back(view_running(*sequence));
}

Sequence* Scheduler::choose_victim() const {
  view_all_running();
  const std::optional<size_t> chosen = yeoul::choose_victim(running_views_);
  return chosen ? running_[*chosen] : nullptr;
}

void Scheduler::preempt(Sequence& sequence) noexcept {
  leave_slot(sequence);
  sequence.preempt();
  sequence.stop_waiting();
  sequence.note_enqueued(computed_prompt_tokens_);
  is_dry_ = true;
  const auto place = std::ranges::find_if(waiting_, [&](const Sequence* other) {
    return other->spec().arrival > sequence.spec().arrival;
  });
  waiting_.insert(place, &sequence);
}

void Scheduler::plan(uint64_t step_id, StepPlan& plan, int32_t prefill_tokens_max) const {
  plan.step_id = step_id;
  plan.items.clear();
  plan.tokens.clear();
  plan.pages.clear();
  plan.pending.clear();
  view_all_running();
  granted_.resize(running_.size());
  grant_tokens(
      running_views_,
      {.step_tokens_max = limits_.step_tokens_max, .prefill_tokens_max = prefill_tokens_max},
      granted_);
  for (size_t i = 0; i < running_.size(); ++i)
    if (granted_[i] > 0) append_item(*running_[i], granted_[i], plan);
}

int32_t Scheduler::num_decode_rows() const {
  return static_cast<int32_t>(std::ranges::count_if(running_, [](const Sequence* sequence) {
    return !sequence->is_paused() && sequence->committed_len() >= sequence->prefill_len();
  }));
}

void Scheduler::account(const StepPlan& plan) noexcept {
  const auto item_of = [&](const Sequence* sequence) {
    return std::ranges::find(plan.items, sequence->slot(), &StepItem::slot);
  };
  const auto reads_prompt = [](const Sequence* sequence) {
    return sequence->committed_len() < sequence->prefill_len();
  };
  for (const Sequence* reader : running_) {
    const auto item = item_of(reader);
    if (item == plan.items.end() || !reads_prompt(reader)) continue;
    computed_prompt_tokens_ += item->num_tokens;
    for (Sequence* other : running_) {
      if (other->spec().arrival >= reader->spec().arrival ||
          other->spec().priority < reader->spec().priority || other->is_paused() ||
          !reads_prompt(other) || item_of(other) != plan.items.end())
        continue;
      other->note_passed_tokens(item->num_tokens);
      bound_breaches_ +=
          other->passed_tokens() >
          passed_tokens_max(other->prefill_len(), limits_.sequences_max, limits_.step_tokens_max);
    }
  }
}

void Scheduler::append_item(const Sequence& sequence, int32_t num_tokens, StepPlan& plan) const {
  const int64_t begin = sequence.committed_len();
  const int64_t end = begin + num_tokens;
  const bool is_prefill = begin < sequence.prefill_len();
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
  // Sequences share pages, so that their tables may be longer than the pool together.
  plan.pages.reserve(static_cast<size_t>(limits.parallel) *
                     static_cast<size_t>(limits.sequence_pages_max));
}

int64_t pages_held(std::span<Sequence* const> sequences) {
  int64_t sum = 0;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const std::span<const int32_t> pages = sequences[i]->page_table().pages();
    int64_t counted = 0;
    for (size_t j = 0; j < i; ++j) {
      const std::span<const int32_t> others = sequences[j]->page_table().pages();
      counted =
          std::max<int64_t>(counted, std::ranges::mismatch(pages, others).in1 - pages.begin());
    }
    sum += std::ssize(pages) - counted;
  }
  return sum;
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
