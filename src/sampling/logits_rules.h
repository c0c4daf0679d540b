#pragma once

// The rules between logits and a draw, each on one row. Scores are double: a float32 logit and the
// sums and products below then lose nothing that could move a tie. Nothing here allocates.

#include <cstdint>
#include <span>

#include "base/token.h"
#include "sampling/sampling_params.h"
#include "sampling/token_counts.h"

namespace yeoul {

// Adds params.logit_bias to scores [V].
void apply_bias(std::span<double> scores, const SamplingParams& params);

// On scores [V], for each token seen in prompt or output: a positive score is divided by the
// repetition penalty, any other multiplied by it; then frequency_penalty * c and, where c > 0,
// presence_penalty are subtracted, c being the token's count among the output tokens.
void apply_penalties(std::span<double> scores, const SamplingParams& params,
                     const TokenCounts& counts);

// Writes the allowed ids in ascending order and returns their number. Bit i % 64 of word i / 64 is
// token i; no words: every token of [0, V) is allowed. `candidates` has room for V ids.
size_t collect_allowed(std::span<const uint64_t> allowed, std::span<TokenId> candidates);

// Scores of the whole vocabulary, and the candidates still in play, ids ascending. The total order
// of candidates is score descending, then id ascending.
struct CandidateRow {
  std::span<const double> scores;  // [V], temperature applied where the rule looks at weights
  std::span<TokenId> candidates;   // [n], n >= 1; the rules keep a part, order kept
  std::span<TokenId> ranked;       // workspace, at least n ids
};

// Each returns how many candidates stay; they are then the first ones of `candidates`.

// The k first of the total order; k == 0 keeps all.
size_t keep_top_k(const CandidateRow& row, int k);
// The shortest beginning of the total order whose softmax mass among the candidates reaches p.
size_t keep_top_p(const CandidateRow& row, double p);
// Those whose probability is at least p times that of the most probable one.
size_t keep_min_p(const CandidateRow& row, double p);

// First candidate of the total order.
TokenId best_candidate(std::span<const double> scores, std::span<const TokenId> candidates);

}  // namespace yeoul
