#pragma once

// The decisions of the scheduler as pure functions over plain numbers.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace yeoul {

// A waiting sequence is passed by at most this many later arrivals.
inline constexpr int32_t kPassedByMax = 32;

struct WaitingView {
  uint64_t arrival = 0;
  int32_t priority = 0;
  int32_t passed_by = 0;  // later arrivals admitted before it so far
  int64_t pages = 0;      // it has to have room for
  bool is_held = false;   // waits for what another one computes
};

struct AdmissionRoom {
  int32_t slots = 0;  // free
  int64_t pages = 0;  // that no running sequence holds or has to have room for
};

// Which sequence to admit next: an index into `waiting`, or nullopt for none now.
// One that is held is none of them. In order of priority, then arrival; one whose pages do not fit
// is passed by the next that fits, until kPassedByMax later arrivals have passed it (whatever their
// priority): from then on only it is admitted, as soon as it fits. Running sequences end, so it
// does not starve.
std::optional<size_t> choose_admission(std::span<const WaitingView> waiting,
                                       const AdmissionRoom& room);

struct RunningView {
  uint64_t arrival = 0;
  int32_t priority = 0;
  int64_t prefill_len = 0;
  int64_t known_len = 0;
  int64_t committed_len = 0;
  int64_t item_end_max = std::numeric_limits<int64_t>::max();  // of an item of the prompt
  bool is_paused = false;
};

// Tokens each running sequence computes in the next step, written to `granted`.
// Each decoding sequence gets its pending token; what is left of `step_tokens_max` goes to the
// prompts, in order of priority, then arrival. An item never crosses the end of the prompt or
// item_end_max.
// step_tokens_max must be at least the number of running sequences.
void grant_tokens(std::span<const RunningView> running, int32_t step_tokens_max,
                  std::span<int32_t> granted);

// Which running sequence gives its pages back when the pool is dry: of the lowest priority the one
// that arrived last. nullopt when fewer than two run: one alone fits. Whoever is first in the order
// is never chosen before it ends, so that two cannot take turns at each other's expense.
std::optional<size_t> choose_victim(std::span<const RunningView> running);

}  // namespace yeoul
