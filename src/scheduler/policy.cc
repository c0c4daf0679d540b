#include "scheduler/policy.h"

#include <algorithm>

#include "base/check.h"

namespace yeoul {

namespace {

template <typename View>
bool runs_before(const View& a, const View& b) {
  return a.priority != b.priority ? a.priority > b.priority : a.arrival < b.arrival;
}

PromptRest rest_of(const WaitingView& view) {
  return view.rest;
}
PromptRest rest_of(const RunningView& view) {
  return {.tokens = view.prefill_len - view.committed_len, .waited = view.waited};
}

template <typename View>
bool reads_before(const View& a, const View& b) {
  const int64_t rank_a = prompt_rank(rest_of(a));
  const int64_t rank_b = prompt_rank(rest_of(b));
  if (a.priority != b.priority || rank_a == rank_b) return runs_before(a, b);
  return rank_a < rank_b;
}

}  // namespace

std::optional<size_t> choose_admission(std::span<const WaitingView> waiting,
                                       const AdmissionRoom& room) {
  if (room.slots <= 0) return std::nullopt;
  std::optional<size_t> barrier;  // the earliest arrival that may not be passed any more
  std::optional<size_t> best;     // the first in order that fits
  for (size_t i = 0; i < waiting.size(); ++i) {
    const WaitingView& view = waiting[i];
    if (view.is_held) continue;
    const bool fits = view.pages <= room.pages;
    if (view.passed_by >= kPassedByMax && (!barrier || view.arrival < waiting[*barrier].arrival))
      barrier = i;
    if (fits && (!best || reads_before(view, waiting[*best]))) best = i;
  }
  if (!barrier) return best;
  return waiting[*barrier].pages <= room.pages ? barrier : std::nullopt;
}

void grant_tokens(std::span<const RunningView> running, const GrantLimits& limits,
                  std::span<int32_t> granted) {
  CHECK(granted.size() == running.size(), "{} grants, {} sequences", granted.size(),
        running.size());
  int64_t budget = limits.step_tokens_max;
  const auto is_prefill = [](const RunningView& view) {
    return view.committed_len < view.prefill_len;
  };
  for (size_t i = 0; i < running.size(); ++i) {
    const RunningView& view = running[i];
    granted[i] = 0;
    if (view.is_paused || is_prefill(view)) continue;
    granted[i] = static_cast<int32_t>(view.known_len - view.committed_len);
    budget -= granted[i];
  }
  CHECK(budget >= 0, "step_tokens_max {} is too small for the decode rows", limits.step_tokens_max);
  budget = std::min<int64_t>(budget, limits.prefill_tokens_max);
  while (budget > 0) {
    std::optional<size_t> next;
    for (size_t i = 0; i < running.size(); ++i) {
      if (granted[i] > 0 || running[i].is_paused || !is_prefill(running[i])) continue;
      if (!next || reads_before(running[i], running[*next])) next = i;
    }
    if (!next) return;
    const RunningView& view = running[*next];
    const int64_t rest = std::min(view.prefill_len, view.item_end_max) - view.committed_len;
    granted[*next] = static_cast<int32_t>(std::min(rest, budget));
    budget -= granted[*next];
  }
}

std::optional<size_t> choose_victim(std::span<const RunningView> running) {
  if (running.size() < 2) return std::nullopt;
  size_t last = 0;
  for (size_t i = 1; i < running.size(); ++i)
    if (runs_before(running[last], running[i])) last = i;
  return last;
}

}  // namespace yeoul
