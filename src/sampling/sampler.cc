#include "sampling/sampler.h"

#include <algorithm>
#include <bit>

#include "backend/math_functions.h"
#include "base/check.h"
#include "base/counter_rng.h"
#include "sampling/logits_rules.h"

namespace yeoul {

namespace {

bool all_finite(std::span<const float> values) {
  constexpr uint32_t kExponentBits = 0x7f800000;
  bool finite = true;
  for (const float value : values) {
    finite &= (std::bit_cast<uint32_t>(value) & kExponentBits) != kExponentBits;
  }
  return finite;
}

// At least gumbel(bits), for the price of counting zeros. With u = unit_interval(bits) and e the
// index of the highest one among the inverted random bits, -log(u) >= 1 - u >= 2^(e - 52), so
// -log(-log(u)) <= (52 - e) log 2. The slack covers the rounding of both logarithms.
double gumbel_bound(uint64_t bits) {
  constexpr double kLog2 = 0.6931471805599453;
  constexpr double kSlack = 1e-6;
  const int e = 63 - std::countl_zero(~bits >> 12);
  return (52 - e) * kLog2 + kSlack;
}

// argmax of scores + Gumbel. Tokens that cannot win by their bound are passed over; the best score
// goes first, so that almost all of a large vocabulary is.
TokenId draw(std::span<const double> scores, std::span<const TokenId> candidates, uint64_t key) {
  const double bound_max = gumbel_bound(~0ull);
  TokenId best = best_candidate(scores, candidates);
  double best_value =
      scores[static_cast<size_t>(best)] + gumbel(counter_bits(key, static_cast<uint64_t>(best)));
  for (const TokenId token : candidates) {
    const double score = scores[static_cast<size_t>(token)];
    if (score + bound_max < best_value) continue;
    const uint64_t bits = counter_bits(key, static_cast<uint64_t>(token));
    if (score + gumbel_bound(bits) < best_value) continue;
    const double value = score + gumbel(bits);
    if (value > best_value || (value == best_value && token < best)) {
      best = token;
      best_value = value;
    }
  }
  return best;
}

// Fills the top list by insertion: ids come in ascending order, so that of equal logits the smaller
// id stays in front.
void fill_top_tokens(std::span<const float> logits, SampleOutput& output) {
  const auto wanted = static_cast<size_t>(output.num_top);
  size_t size = 0;
  for (size_t token = 0; token < logits.size() && wanted > 0; ++token) {
    const float logit = logits[token];
    if (size == wanted && logit <= output.top_logprobs[size - 1]) continue;
    size_t place = size < wanted ? size++ : wanted - 1;
    for (; place > 0 && output.top_logprobs[place - 1] < logit; --place) {
      output.top_logprobs[place] = output.top_logprobs[place - 1];
      output.top_tokens[place] = output.top_tokens[place - 1];
    }
    output.top_logprobs[place] = logit;
    output.top_tokens[place] = static_cast<TokenId>(token);
  }
}

void fill_logprobs(std::span<const float> logits, int num_top, SampleOutput& output) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double total = 0;  // in ascending id order
  for (const float logit : logits) total += exp_double(static_cast<double>(logit) - top);
  const double log_total = log_double(total);
  const auto logprob = [&](float logit) {
    return static_cast<float>(static_cast<double>(logit) - top - log_total);
  };
  output.logprob = logprob(logits[static_cast<size_t>(output.token)]);
  output.num_top = static_cast<int32_t>(std::min(static_cast<size_t>(num_top), logits.size()));
  fill_top_tokens(logits, output);
  for (size_t i = 0; i < static_cast<size_t>(output.num_top); ++i) {
    output.top_logprobs[i] = logprob(output.top_logprobs[i]);
  }
}

}  // namespace

double gumbel(uint64_t bits) {
  return -log_double(-log_double(unit_interval(bits)));
}

Sampler::Sampler(int32_t vocab_size) {
  CHECK(vocab_size > 0, "vocab_size {}", vocab_size);
  scores_.resize(static_cast<size_t>(vocab_size));
  candidates_.resize(static_cast<size_t>(vocab_size));
  ranked_.resize(static_cast<size_t>(vocab_size));
}

SampleStatus Sampler::sample(const SampleInput& input, SampleOutput& output) {
  CHECK(input.logits.size() == scores_.size(), "{} logits for a vocabulary of {}",
        input.logits.size(), scores_.size());
  const SamplingParams& params = *input.params;
  if (!all_finite(input.logits)) return SampleStatus::kNonFinite;

  std::copy(input.logits.begin(), input.logits.end(), scores_.begin());
  apply_bias(scores_, params);
  if (input.counts != nullptr) apply_penalties(scores_, params, *input.counts);

  CandidateRow row{.scores = scores_, .candidates = candidates_, .ranked = ranked_};
  row.candidates = row.candidates.first(collect_allowed(input.allowed, row.candidates));
  if (row.candidates.empty()) return SampleStatus::kNothingAllowed;

  if (params.temperature == 0) {
    output.token = best_candidate(scores_, row.candidates);
  } else {
    for (double& score : scores_) score /= static_cast<double>(params.temperature);
    row.candidates = row.candidates.first(keep_top_k(row, params.top_k));
    row.candidates = row.candidates.first(keep_top_p(row, static_cast<double>(params.top_p)));
    row.candidates = row.candidates.first(keep_min_p(row, static_cast<double>(params.min_p)));
    const uint64_t key = counter_key(params.seed, static_cast<uint64_t>(input.choice),
                                     static_cast<uint64_t>(input.position));
    output.token = draw(scores_, row.candidates, key);
  }
  if (params.num_top_logprobs >= 0) {
    fill_logprobs(input.logits, params.num_top_logprobs, output);
  }
  return SampleStatus::kOk;
}

}  // namespace yeoul
