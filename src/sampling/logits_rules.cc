#include "sampling/logits_rules.h"

#include <algorithm>
#include <numeric>

#include "backend/math_functions.h"
#include "base/check.h"

namespace yeoul {

namespace {

struct RanksBefore {
  std::span<const double> scores;
  bool operator()(TokenId a, TokenId b) const {
    const double score_a = scores[static_cast<size_t>(a)];
    const double score_b = scores[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  }
};

// Keeps the candidates up to and including `last` in the total order.
size_t keep_until(const CandidateRow& row, TokenId last) {
  const RanksBefore ranks_before{row.scores};
  size_t kept = 0;
  for (const TokenId token : row.candidates) {
    if (!ranks_before(last, token)) row.candidates[kept++] = token;
  }
  return kept;
}

}  // namespace

void apply_bias(std::span<double> scores, const SamplingParams& params) {
  for (const auto& [token, bias] : params.logit_bias) {
    scores[static_cast<size_t>(token)] += static_cast<double>(bias);
  }
}

void apply_penalties(std::span<double> scores, const SamplingParams& params,
                     const TokenCounts& counts) {
  const double repetition = params.repetition_penalty;
  for (const TokenId token : counts.seen()) {
    double& score = scores[static_cast<size_t>(token)];
    score = score > 0 ? score / repetition : score * repetition;
    const int32_t count = counts.output_count(token);
    score -= static_cast<double>(params.frequency_penalty) * count;
    if (count > 0) score -= static_cast<double>(params.presence_penalty);
  }
}

size_t collect_allowed(std::span<const uint64_t> allowed, std::span<TokenId> candidates) {
  const size_t vocab_size = candidates.size();
  if (allowed.empty()) {
    std::iota(candidates.begin(), candidates.end(), TokenId{0});
    return vocab_size;
  }
  CHECK(allowed.size() * 64 >= vocab_size, "{} mask words for {} tokens", allowed.size(),
        vocab_size);
  size_t count = 0;
  for (size_t token = 0; token < vocab_size; ++token) {
    if ((allowed[token / 64] >> (token % 64)) & 1)
      candidates[count++] = static_cast<TokenId>(token);
  }
  return count;
}

size_t keep_top_k(const CandidateRow& row, int k) {
  const size_t count = row.candidates.size();
  const auto limit = static_cast<size_t>(k);
  if (limit == 0 || limit >= count) return count;
  const auto ranked = row.ranked.first(count);
  std::copy(row.candidates.begin(), row.candidates.end(), ranked.begin());
  const auto last = ranked.begin() + static_cast<std::ptrdiff_t>(limit - 1);
  std::nth_element(ranked.begin(), last, ranked.end(), RanksBefore{row.scores});
  return keep_until(row, *last);
}

size_t keep_top_p(const CandidateRow& row, double p) {
  const size_t count = row.candidates.size();
  if (p >= 1) return count;
  const double top = row.scores[static_cast<size_t>(best_candidate(row.scores, row.candidates))];
  const auto weight = [&](TokenId token) {
    return exp_double(row.scores[static_cast<size_t>(token)] - top);
  };
  double total = 0;  // in ascending id order: the same sum whatever ran before
  for (const TokenId token : row.candidates) total += weight(token);

  const auto ranked = row.ranked.first(count);
  std::copy(row.candidates.begin(), row.candidates.end(), ranked.begin());
  double mass = 0;
  // Most of the mass sits in few tokens, so ranks are made in growing runs, not all at once.
  size_t begin = 0;
  for (size_t run = 64; begin < count; run *= 8) {
    const size_t end = std::min(count, begin + run);
    const auto first = ranked.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = ranked.begin() + static_cast<std::ptrdiff_t>(end);
    if (end < count) std::nth_element(first, last, ranked.end(), RanksBefore{row.scores});
    std::sort(first, last, RanksBefore{row.scores});
    for (; begin < end; ++begin) {
      mass += weight(ranked[begin]);
      if (mass >= p * total) return keep_until(row, ranked[begin]);
    }
  }
  return count;  // p so close to 1 that the rounded sum does not reach it
}

size_t keep_min_p(const CandidateRow& row, double p) {
  if (p <= 0) return row.candidates.size();
  const double top = row.scores[static_cast<size_t>(best_candidate(row.scores, row.candidates))];
  size_t kept = 0;
  for (const TokenId token : row.candidates) {
    if (exp_double(row.scores[static_cast<size_t>(token)] - top) >= p)
      row.candidates[kept++] = token;
  }
  return kept;
}

TokenId best_candidate(std::span<const double> scores, std::span<const TokenId> candidates) {
  return *std::min_element(candidates.begin(), candidates.end(), RanksBefore{scores});
}

}  // namespace yeoul
