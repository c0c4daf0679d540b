#include "engine/step_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fault.h"

namespace yeoul {

namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

Error cancelled(std::string why) {
  return Error{ErrorCode::kCancelled, std::move(why)};
}

}  // namespace

// The page to read first: one step.
StepOutcome StepEngine::step() {
  const TimePoint now = clock_.now();
  drain_inbox();  // submissions since the last step
  reporter_.answer([this](CacheReporter::Storage& into) { report_cache(into); });
  cancel_overdue(now);  // readers gone or too slow, deadlines passed
  if (!healthy()) return lose_device({ErrorCode::kInternal, "the device was lost"});
  take_restored();                    // prefixes that have come back from disk
  admit();                            // waiting sequences that fit start to run
  pause_for_readers(now);             // sequences whose reader is behind get no rows
  preempt_as_told();                  // tests only
  plan_step();                        // pure: who runs, how many tokens, how many pages
  PageReservation pages = reserve();  // kept prefixes and victims give way
  if (plan_.empty()) {
    is_writing_ = disk_ && disk_->write_behind();
    refresh_gauges();
    return StepOutcome::kIdle;
  }
  ++next_step_id_;
  if (const Result<void> ran = run_plan(now); !ran) {
    pages.give_back();
    return lose_device(ran.error());
  }
  judge();         // row statuses, constraints, stop tokens, limits
  choose_saves();  // states on the way through prompts that later ones may go on from
  commit(pages);   // noexcept: state moves here and nowhere else
  publish(clock_.now());
  is_writing_ = disk_ && disk_->write_behind();  // hands units to another thread
  return StepOutcome::kProgressed;
}

void StepEngine::run(std::stop_token stop) {
  const std::stop_callback wake_on_stop(stop, [wakeup = wakeup_] { wakeup->notify(); });
  while (!stop.stop_requested())
    if (step() != StepOutcome::kProgressed) wakeup_->wait_for(time_to_next_limit());
  shut_down();
}

void StepEngine::drain_inbox() {
  while (std::optional<std::unique_ptr<LiveRequest>> arrived = inbox_.try_pop()) {
    LiveRequest& request = **arrived;
    live_.push_back(std::move(*arrived));
    for (LiveRequest::Choice& choice : request.choices) {
      if (options_.num_snapshots > 0)
        choice.sequence.expect_cached(
            index_.look(request.request.cache_salt, PrefixUnits(request.request.prompt))
                .resume_len);
      scheduler_.enqueue(choice.sequence);
    }
  }
}

void StepEngine::cancel_overdue(TimePoint now) {
  for (const std::unique_ptr<LiveRequest>& request : live_) {
    if (request->stream->abandoned()) {
      cancel(*request, cancelled("the reader went away"));
    } else if (request->deadline_at && now >= *request->deadline_at) {
      cancel(*request,
             cancelled(fmt::format("the deadline of {} s passed after {} output tokens",
                                   seconds(request->request.deadline), request->output_tokens)));
    } else if (request->paused_since && now - *request->paused_since >= options_.slow_reader_max) {
      cancel(*request, cancelled(fmt::format("the reader left {} tokens unread for {} s",
                                             request->stream->unread_tokens(),
                                             seconds(options_.slow_reader_max))));
    }
  }
  finish_ended();
}

void StepEngine::admit() {
  while (Sequence* sequence = scheduler_.next_admission()) {
    LiveRequest& request = request_of(*sequence);
    // Either holds it from now on.
    if (joins_a_leader(*sequence, request) || waits_for_disk(*sequence, request)) continue;
    if (Result<void> started = start(*sequence); !started)
      fail_request(request, std::move(started.error()));
  }
  finish_ended();
  publish_queue_positions();
}

Result<void> StepEngine::start(Sequence& sequence) {
  LiveRequest& request = request_of(sequence);
  if (fault_fires(FaultPoint::kAdmissionMemory, request.id))
    return fail(ErrorCode::kResourceExhausted, "no memory to admit the request");
  TRY(sequence.reserve_memory(shape_.tokens_per_page));
  const SlotResume resumed = resume(sequence, request);
  scheduler_.admit(sequence);
  const int32_t choice = sequence.spec().choice;
  slots_[static_cast<size_t>(sequence.slot())] = {&request, choice};
  const auto& constraints = request.request.constraints;
  executor_->open_slot(
      sequence.slot(),
      {.sampling = &request.request.sampling,
       .choice = choice,
       .prompt = sequence.spec().prompt,
       .output = sequence.output(),
       .constraint = constraints.empty() ? nullptr : constraints[static_cast<size_t>(choice)].get(),
       .resume = resumed});
  return {};
}

void StepEngine::pause_for_readers(TimePoint now) {
  for (const std::unique_ptr<LiveRequest>& request : live_) request->planned_tokens = 0;
  for (Sequence* sequence : scheduler_.running()) {
    LiveRequest& request = *slots_[static_cast<size_t>(sequence->slot())].request;
    const auto wanted = static_cast<size_t>(request.planned_tokens) + 1;
    const bool fits = request.stream->can_take_tokens(wanted);
    sequence->pause(!fits);
    if (fits) {
      ++request.planned_tokens;
      request.paused_since.reset();
    } else if (request.planned_tokens == 0 && !request.paused_since) {
      request.paused_since = now;
    }
  }
}

void StepEngine::plan_step() {
  const int32_t decode_rows = scheduler_.num_decode_rows();
  if (decode_rows == 0 || options_.itl_target == Duration::zero())
    return scheduler_.plan(next_step_id_, plan_);
  scheduler_.plan(next_step_id_, plan_,
                  cost_.prefill_tokens_max(decode_rows, seconds(options_.itl_target)));
}

// One sequence alone always fits: what could not was refused. So this ends.
PageReservation StepEngine::reserve() {
  int64_t demand = page_demand(plan_);
  while (demand > pool_.num_free()) {
    if (give_way()) continue;
    Sequence* const victim = scheduler_.choose_victim();
    CHECK(victim != nullptr, "{} pages wanted, {} free, and at most one sequence runs", demand,
          pool_.num_free());
    preempt(*victim);
    plan_step();
    demand = page_demand(plan_);
  }
  new_pages_.resize(static_cast<size_t>(demand));
  std::optional<PageReservation> pages = PageReservation::make(pool_, new_pages_);
  CHECK(pages, "{} pages wanted, {} free", demand, pool_.num_free());
  assign_pages(*pages, plan_);
  return std::move(*pages);
}

void StepEngine::preempt_as_told() noexcept {
  for (size_t i = scheduler_.running().size(); i-- > 0;) {
    Sequence& sequence = *scheduler_.running()[i];
    if (fault_fires(FaultPoint::kPreemption, sequence.spec().request_id)) preempt(sequence);
  }
}

// Its state is kept like that of one that ends: where there is room for it, it goes on from there.
void StepEngine::preempt(Sequence& sequence) noexcept {
  const int32_t slot = sequence.slot();
  LiveRequest& request = *slots_[static_cast<size_t>(slot)].request;
  keep_state(sequence, request.request.cache_salt);
  executor_->close_slot(slot);
  slots_[static_cast<size_t>(slot)] = {};
  scheduler_.preempt(sequence);
  // Unless another of its choices is paused still, its reader holds up nothing now.
  const bool any_runs = std::ranges::any_of(request.choices, [](const LiveRequest::Choice& choice) {
    return choice.sequence.phase() == Sequence::Phase::kRunning;
  });
  if (!any_runs) request.paused_since.reset();
  ++counters_.preemptions;
}

Result<void> StepEngine::run_plan(TimePoint now) {
  for (const StepItem& item : plan_.items) {
    LiveRequest& request = *owner(item).request;
    if (!request.prefill_began_at) request.prefill_began_at = now;
  }
  result_.step_id = plan_.step_id;
  TRY(executor_->launch(plan_));
  TRY(executor_->collect(result_));
  ++counters_.steps;
  step_s_ = seconds(clock_.now() - now);
  counters_.step_seconds += step_s_;
  note_prefill_rate();
  const int32_t decode_rows = scheduler_.num_decode_rows();
  cost_.observe({.decode_rows = decode_rows,
                 .prefill_tokens = static_cast<int32_t>(std::ssize(plan_.tokens)) - decode_rows},
                step_s_);
  CHECK(result_.items.size() == plan_.items.size(), "{} results for {} items", result_.items.size(),
        plan_.items.size());
  return {};
}

void StepEngine::judge() {
  verdicts_.assign(plan_.items.size(), Verdict{});
  for (size_t i = 0; i < plan_.items.size(); ++i) {
    const StepItem& item = plan_.items[i];
    const ItemResult& result = result_.items[i];
    LiveRequest& request = *owner(item).request;
    if (request.is_failing()) continue;
    if (result.status != RowStatus::kOk)
      request.status = fail(result.error.code, result.error.message);
    else if (item.logits != LogitsFor::kNone)
      judge_token(item, result, verdicts_[i]);
  }
  // Only now, because the failure of one choice ends its siblings too.
  accepted_.clear();
  for (const StepItem& item : plan_.items)
    accepted_.push_back(owner(item).request->is_failing() ? 0 : item.num_tokens);
}

void StepEngine::judge_token(const StepItem& item, const ItemResult& result, Verdict& verdict) {
  const SlotOwner& of = owner(item);
  LiveRequest& request = *of.request;
  const GenerateRequest& asked = request.request;
  const Sequence& sequence = request.choices[static_cast<size_t>(of.choice)].sequence;
  verdict.has_token = true;
  if (std::ranges::find(asked.stop_token_ids, result.token) != asked.stop_token_ids.end())
    verdict.finish = FinishReason::kStop;
  else if (std::ssize(sequence.output()) + 1 == sequence.spec().output_max)
    verdict.finish = FinishReason::kLength;
  if (asked.constraints.empty()) return;
  switch (asked.constraints[static_cast<size_t>(of.choice)]->accept(result.token)) {
    case TokenConstraint::Verdict::kContinue:
      break;
    case TokenConstraint::Verdict::kEndAfter:
      verdict.finish = FinishReason::kStop;
      break;
    case TokenConstraint::Verdict::kBroken:
      request.status =
          fail(ErrorCode::kInternal,
               fmt::format("choice {}: the output constraint cannot go on after token {} at "
                           "position {}",
                           of.choice, result.token, sequence.known_len()));
      break;
  }
}

void StepEngine::commit(PageReservation& pages) noexcept {
  executor_->commit(plan_, result_, accepted_, saves_);
  scheduler_.account(plan_);
  for (size_t i = 0; i < plan_.items.size(); ++i) {
    const StepItem& item = plan_.items[i];
    const SlotOwner of = owner(item);
    LiveRequest::Choice& choice = of.request->choices[static_cast<size_t>(of.choice)];
    const auto pages_held = static_cast<int32_t>(choice.sequence.page_table().size());
    choice.sequence.commit(accepted_[i], item.num_pages - pages_held, pages);
  }
  insert_saved();
  for (size_t i = 0; i < plan_.items.size(); ++i) {
    const SlotOwner of = owner(plan_.items[i]);
    LiveRequest::Choice& choice = of.request->choices[static_cast<size_t>(of.choice)];
    if (of.request->is_failing()) continue;
    if (verdicts_[i].has_token) choice.sequence.append_output(result_.items[i].token);
    if (verdicts_[i].finish) {
      choice.finished = verdicts_[i].finish;
      end_choice(*of.request, of.choice);
    }
  }
  // All choices of a failing request end, those without an item in this step included.
  for (const std::unique_ptr<LiveRequest>& request : live_)
    if (request->is_failing())
      for (const LiveRequest::Choice& choice : request->choices)
        end_choice(*request, choice.sequence.spec().choice);
}

void StepEngine::publish(TimePoint now) {
  for (size_t i = 0; i < plan_.items.size(); ++i) publish_item(i, now);
  finish_ended();
  refresh_gauges();
}

}  // namespace yeoul
