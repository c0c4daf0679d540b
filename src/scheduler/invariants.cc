#include "scheduler/invariants.h"

#include <fmt/format.h>

namespace yeoul {

namespace {

Result<void> check_running(const SchedulerSnapshot::Running& view, const SchedulerLimits& limits) {
  const auto wrong = [&](const char* what) {
    return fail(ErrorCode::kInternal,
                fmt::format("slot {}: {}: prompt {}, known {}, committed {}, output at most {}, "
                            "pages {} of at most {}",
                            view.slot, what, view.prompt_len, view.known_len, view.committed_len,
                            view.output_max, view.num_pages, view.pages_max));
  };
  if (view.committed_len >= view.known_len) return wrong("nothing left to compute");
  if (view.prefill_len < view.prompt_len || view.prefill_len > view.known_len)
    return wrong("its prefill does not end between prompt and known tokens");
  if (view.committed_len >= view.prefill_len && view.known_len != view.committed_len + 1)
    return wrong("not exactly one pending output token");
  if (view.known_len - view.prompt_len >= view.output_max) return wrong("ought to have ended");
  if (view.num_pages != pages_for(view.committed_len, limits.tokens_per_page))
    return wrong("pages do not match the committed positions");
  if (view.num_pages > view.pages_max) return wrong("more pages than it may hold");
  if (view.passed_tokens >
      passed_tokens_max(view.prefill_len, limits.sequences_max, limits.step_tokens_max))
    return fail(ErrorCode::kInternal,
                fmt::format("slot {}: {} tokens of later prompts went before its {}", view.slot,
                            view.passed_tokens, view.prefill_len));
  return {};
}

}  // namespace

SchedulerSnapshot snapshot(const Scheduler& scheduler) {
  SchedulerSnapshot result;
  result.limits = scheduler.limits();
  for (const Sequence* sequence : scheduler.waiting())
    result.waiting_passed_by.push_back(sequence->passed_by());
  for (const Sequence* sequence : scheduler.running())
    result.running.push_back({.slot = sequence->slot(),
                              .prompt_len = sequence->prompt_len(),
                              .prefill_len = sequence->prefill_len(),
                              .known_len = sequence->known_len(),
                              .committed_len = sequence->committed_len(),
                              .output_max = sequence->spec().output_max,
                              .pages_max = sequence->pages_max(result.limits.tokens_per_page),
                              .num_pages = std::ssize(sequence->page_table().pages()),
                              .passed_tokens = sequence->passed_tokens()});
  return result;
}

Result<void> check_scheduler(const SchedulerSnapshot& snapshot) {
  std::vector<bool> slot_used(static_cast<size_t>(snapshot.limits.parallel), false);
  for (const SchedulerSnapshot::Running& view : snapshot.running) {
    const auto slot = static_cast<size_t>(view.slot);
    if (view.slot < 0 || slot >= slot_used.size() || slot_used[slot])
      return fail(ErrorCode::kInternal, fmt::format("slot {} of {} is used twice or unknown",
                                                    view.slot, slot_used.size()));
    slot_used[slot] = true;
    if (view.pages_max > snapshot.limits.num_pages)
      return fail(ErrorCode::kInternal,
                  fmt::format("slot {} may come to hold {} pages, {} exist", view.slot,
                              view.pages_max, snapshot.limits.num_pages));
    TRY(check_running(view, snapshot.limits));
  }
  for (const int32_t passed_by : snapshot.waiting_passed_by)
    if (passed_by > kPassedByMax)
      return fail(ErrorCode::kInternal,
                  fmt::format("a waiting sequence was passed by {} later arrivals, the bound is {}",
                              passed_by, kPassedByMax));
  return {};
}

}  // namespace yeoul
