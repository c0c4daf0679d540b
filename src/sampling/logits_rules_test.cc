#include "sampling/logits_rules.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backend/math_functions.h"

namespace yeoul {
namespace {

using Ids = std::vector<TokenId>;

// Half the rows have many ties: a handful of levels; the others are spread over +-20.
std::vector<double> draw_scores() {
  const auto size = *rc::gen::inRange<size_t>(1, 400);
  const int levels = *rc::gen::element(4, 40'000);
  const auto steps = *rc::gen::container<std::vector<int>>(size, rc::gen::inRange(0, levels + 1));
  std::vector<double> scores;
  for (const int step : steps) scores.push_back(40.0 * step / levels - 20.0);
  return scores;
}

// Some non-empty, ascending subset of the ids.
Ids draw_candidates(size_t vocab_size) {
  const auto in_play =
      *rc::gen::container<std::vector<bool>>(vocab_size, rc::gen::arbitrary<bool>());
  Ids ids;
  for (size_t i = 0; i < vocab_size; ++i) {
    if (in_play[i]) ids.push_back(static_cast<TokenId>(i));
  }
  if (ids.empty()) ids.push_back(0);
  return ids;
}

double score_of(const std::vector<double>& scores, TokenId token) {
  return scores[static_cast<size_t>(token)];
}

// Plain version: everything sorted at once, highest score first, smaller id first.
Ids ranked(const std::vector<double>& scores, Ids ids) {
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return score_of(scores, a) > score_of(scores, b); });
  return ids;
}

template <typename Rule>
Ids kept_by(Rule rule, const std::vector<double>& scores, Ids candidates) {
  Ids workspace(candidates.size(), -1);
  candidates.resize(rule({.scores = scores, .candidates = candidates, .ranked = workspace}));
  return candidates;
}

RC_GTEST_PROP(LogitsRules, top_k_keeps_the_k_first_of_the_full_sort, ()) {
  const auto scores = draw_scores();
  const Ids candidates = draw_candidates(scores.size());
  const int k = *rc::gen::inRange(0, 60);
  Ids expected = ranked(scores, candidates);
  if (k > 0 && static_cast<size_t>(k) < expected.size()) expected.resize(static_cast<size_t>(k));
  std::sort(expected.begin(), expected.end());
  RC_ASSERT(kept_by([&](const CandidateRow& row) { return keep_top_k(row, k); }, scores,
                    candidates) == expected);
}

RC_GTEST_PROP(LogitsRules, top_p_keeps_the_shortest_beginning_of_the_full_sort_that_reaches_p, ()) {
  const auto scores = draw_scores();
  const Ids candidates = draw_candidates(scores.size());
  const double p = *rc::gen::inRange(1, 1001) / 1000.0;
  const Ids order = ranked(scores, candidates);
  const double top = score_of(scores, order.front());
  double total = 0;
  for (const TokenId id : candidates) total += exp_double(score_of(scores, id) - top);
  Ids expected;
  double mass = 0;
  for (const TokenId id : order) {
    expected.push_back(id);
    mass += exp_double(score_of(scores, id) - top);
    if (p < 1 && mass >= p * total) break;
  }
  std::sort(expected.begin(), expected.end());
  RC_ASSERT(kept_by([&](const CandidateRow& row) { return keep_top_p(row, p); }, scores,
                    candidates) == expected);
}

RC_GTEST_PROP(LogitsRules, min_p_keeps_what_is_within_a_factor_of_the_most_probable, ()) {
  const auto scores = draw_scores();
  const Ids candidates = draw_candidates(scores.size());
  const double p = *rc::gen::inRange(0, 1001) / 1000.0;
  const double top = score_of(scores, ranked(scores, candidates).front());
  Ids expected;
  for (const TokenId id : candidates) {
    if (exp_double(score_of(scores, id) - top) >= p) expected.push_back(id);
  }
  RC_ASSERT(kept_by([&](const CandidateRow& row) { return keep_min_p(row, p); }, scores,
                    candidates) == expected);
}

RC_GTEST_PROP(LogitsRules, every_rule_keeps_the_best_candidate, ()) {
  const auto scores = draw_scores();
  const Ids candidates = draw_candidates(scores.size());
  const TokenId best = best_candidate(scores, candidates);
  RC_ASSERT(best == ranked(scores, candidates).front());
  RC_ASSERT(kept_by([](const CandidateRow& row) { return keep_top_k(row, 1); }, scores,
                    candidates) == Ids{best});
  RC_ASSERT(kept_by([](const CandidateRow& row) { return keep_top_p(row, 1e-9); }, scores,
                    candidates) == Ids{best});
  const Ids at_one =
      kept_by([](const CandidateRow& row) { return keep_min_p(row, 1.0); }, scores, candidates);
  RC_ASSERT(std::find(at_one.begin(), at_one.end(), best) != at_one.end());
}

TEST(LogitsRules, top_p_by_hand) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  const std::vector<double> scores = {log_double(0.15), log_double(0.5), log_double(0.05),
                                      log_double(0.3)};
  const Ids all = {0, 1, 2, 3};
  const auto kept = [&](double p) {
    return kept_by([p](const CandidateRow& row) { return keep_top_p(row, p); }, scores, all);
  };
  EXPECT_EQ(kept(0.49), (Ids{1}));
  EXPECT_EQ(kept(0.51), (Ids{1, 3}));
  EXPECT_EQ(kept(0.79), (Ids{1, 3}));
  EXPECT_EQ(kept(0.81), (Ids{0, 1, 3}));
  EXPECT_EQ(kept(0.96), all);
  EXPECT_EQ(kept(1.0), all);
}

TEST(LogitsRules, penalties_follow_the_formula) {
  TokenCounts counts(5);
  counts.add_prompt(Ids{0, 3, 3});
  for (const TokenId token : {1, 1, 1, 3}) counts.add_output(token);
  const SamplingParams params{
      .presence_penalty = 0.5f, .frequency_penalty = 0.25f, .repetition_penalty = 2.0f};
  std::vector<double> scores = {4.0, -2.0, 6.0, 1.0, 0.0};
  apply_penalties(scores, params, counts);
  EXPECT_EQ(scores[0], 4.0 / 2);                    // prompt only: repetition alone
  EXPECT_EQ(scores[1], -2.0 * 2 - 0.25 * 3 - 0.5);  // three times in the output
  EXPECT_EQ(scores[2], 6.0);                        // not seen
  EXPECT_EQ(scores[3], 1.0 / 2 - 0.25 - 0.5);       // prompt and output
  EXPECT_EQ(scores[4], 0.0);
}

TEST(LogitsRules, neutral_penalties_change_no_bit) {
  TokenCounts counts(3);
  for (const TokenId token : {0, 1, 2, 2}) counts.add_output(token);
  std::vector<double> scores = {0.1, -0.7, 3e38};
  const std::vector<double> before = scores;
  apply_penalties(scores, SamplingParams{}, counts);
  EXPECT_EQ(scores, before);
}

TEST(LogitsRules, bias_is_added_to_its_token) {
  std::vector<double> scores = {1.0, 2.0};
  apply_bias(scores, {.logit_bias = {{1, -0.5f}}});
  EXPECT_EQ(scores, (std::vector<double>{1.0, 1.5}));
}

TEST(TokenCounts, a_reset_object_is_like_a_new_one) {
  TokenCounts counts(4);
  counts.add_prompt(Ids{2, 2});
  counts.add_output(1);
  counts.add_output(2);
  EXPECT_EQ(Ids(counts.seen().begin(), counts.seen().end()), (Ids{2, 1}));
  EXPECT_EQ(counts.output_count(2), 1);
  counts.reset();
  EXPECT_TRUE(counts.seen().empty());
  for (TokenId token = 0; token < 4; ++token) EXPECT_EQ(counts.output_count(token), 0);
  counts.add_output(2);
  EXPECT_EQ(Ids(counts.seen().begin(), counts.seen().end()), (Ids{2}));
}

}  // namespace
}  // namespace yeoul
