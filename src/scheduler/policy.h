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

// Prompts are read shortest rest first, with ageing: kAgeing tokens computed for others since it
// came count like one token less of its own.
inline constexpr int64_t kAgeing = 4;

struct PromptRest {
  int64_t tokens = 0;  // left to compute, those that are cached not counted
  int64_t waited = 0;  // tokens of prompts computed since it was enqueued
};

// Smaller reads first.
constexpr int64_t prompt_rank(const PromptRest& rest) {
  return kAgeing * rest.tokens - rest.waited;
}

// What is computed of prompts that arrived after one of `prompt_len` tokens and are not above it in
// priority, in steps that leave out that running one: at most so many tokens. While it has `tokens`
// left, only those go before it that came before kAgeing x tokens were computed since it came, and
// have less left. What those compute until then is within kAgeing x prompt_len; after it at most
// sequences_max of them are there, each with less than prompt_len. The step in which the last of it
// was enqueued counts whole.
constexpr int64_t passed_tokens_max(int64_t prompt_len, int64_t sequences_max,
                                    int64_t step_tokens_max) {
  return (kAgeing + sequences_max) * prompt_len + step_tokens_max;
}

struct WaitingView {
  uint64_t arrival = 0;
  int32_t priority = 0;
  PromptRest rest;
  int32_t passed_by = 0;  // later arrivals admitted before it so far
  int64_t pages = 0;      // it has to have room for
  bool is_held = false;   // waits for what another one computes
};

struct AdmissionRoom {
  int32_t slots = 0;  // free
  int64_t pages = 0;  // that no running sequence holds or has to have room for
};

// Which sequence to admit next: an index into `waiting`, or nullopt for none now.
// One that is held is none of them. In order of priority, then prompt_rank; one whose pages do not
// fit is passed by the next that fits, until kPassedByMax later arrivals have passed it (whatever
// their priority): from then on only it is admitted, as soon as it fits. Running sequences end, so
// it does not starve.
std::optional<size_t> choose_admission(std::span<const WaitingView> waiting,
                                       const AdmissionRoom& room);

struct RunningView {
  uint64_t arrival = 0;
  int32_t priority = 0;
  int64_t prefill_len = 0;
  int64_t known_len = 0;
  int64_t committed_len = 0;
  int64_t waited = 0;                                          // as in PromptRest
  int64_t item_end_max = std::numeric_limits<int64_t>::max();  // of an item of the prompt
  bool is_paused = false;
};

struct GrantLimits {
  int32_t step_tokens_max = 0;
  int32_t prefill_tokens_max = std::numeric_limits<int32_t>::max();
};

// Tokens each running sequence computes in the next step, written to `granted`.
// Each decoding sequence gets its pending token; what is left of `step_tokens_max`, at most
// prefill_tokens_max, goes to the prompts, in order of priority, then prompt_rank. An item never
// crosses the end of the prompt or item_end_max. step_tokens_max must be at least the number of
// running sequences.
void grant_tokens(std::span<const RunningView> running, const GrantLimits& limits,
                  std::span<int32_t> granted);

// Which running sequence gives its pages back when the pool is dry: of the lowest priority the one
// that arrived last. nullopt when fewer than two run: one alone fits. Whoever is first in the order
// is never chosen before it ends, so that two cannot take turns at each other's expense.
std::optional<size_t> choose_victim(std::span<const RunningView> running);

}  // namespace yeoul
