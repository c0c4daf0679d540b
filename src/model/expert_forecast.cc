#include "model/expert_forecast.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace yeoul {
namespace {

// How much of a mean one visit is: time scales of 2, 6, 20, 64 and 256 visits.
constexpr std::array<float, 5> kShares = {1.0f / 2, 1.0f / 6, 1.0f / 20, 1.0f / 64, 1.0f / 256};
// What is left of the evidence for the weights after a visit: a memory of about 500 visits.
constexpr double kFading = 1 - 1.0 / 512;
// Evidence for equal weights, in experts seen.
constexpr double kPrior = 8;

}  // namespace

ExpertForecast::ExpertForecast(std::span<const int32_t> experts_of_layer) {
  CHECK(!experts_of_layer.empty());
  first_.push_back(0);
  for (const int32_t experts : experts_of_layer) first_.push_back(first_.back() + experts);
  means_.resize(static_cast<size_t>(num_experts()));
  chances_.resize(means_.size());
  used_.resize(static_cast<size_t>(*std::ranges::max_element(experts_of_layer)));
  visits_.resize(experts_of_layer.size());
  weights_.fill(1.0f / kScales);
}

void ExpertForecast::visit(int32_t layer, std::span<const int32_t> experts) {
  const auto begin = static_cast<size_t>(first_[static_cast<size_t>(layer)]);
  const auto end = static_cast<size_t>(first_[static_cast<size_t>(layer) + 1]);
  const std::span<Means> means(means_.data() + begin, end - begin);
  std::fill_n(used_.begin(), means.size(), uint8_t{0});
  for (const int32_t expert : experts) used_[static_cast<size_t>(expert)] = 1;
  if (visits_[static_cast<size_t>(layer)] > 0) learn(means);

  const auto count = static_cast<float>(++visits_[static_cast<size_t>(layer)]);
  Means shares;  // plain means until a time scale has passed
  for (size_t s = 0; s < kScales; ++s) shares[s] = std::max(kShares[s], 1 / count);
  for (size_t e = 0; e < means.size(); ++e) {
    float chance = 0;
    for (size_t s = 0; s < kScales; ++s) {
      means[e][s] += shares[s] * (static_cast<float>(used_[e]) - means[e][s]);
      chance += weights_[s] * means[e][s];
    }
    chances_[begin + e] = chance;
  }
  if (layer == 0) fit();
}

// What the means said before this visit, against what it used.
void ExpertForecast::learn(std::span<const Means> means) {
  for (double& sum : products_) sum *= kFading;
  for (double& sum : targets_) sum *= kFading;
  std::array<float, kScales * kScales> products{};
  std::array<float, kScales> targets{};
  for (size_t e = 0; e < means.size(); ++e) {
    for (size_t s = 0; s < kScales; ++s) {
      if (used_[e] != 0) targets[s] += means[e][s];
      for (size_t t = 0; t <= s; ++t) products[s * kScales + t] += means[e][s] * means[e][t];
    }
  }
  for (size_t i = 0; i < products.size(); ++i) products_[i] += static_cast<double>(products[i]);
  for (size_t i = 0; i < targets.size(); ++i) targets_[i] += static_cast<double>(targets[i]);
}

// Least squares by Cholesky's decomposition, drawn towards equal weights by a prior.
void ExpertForecast::fit() {
  std::array<double, kScales * kScales> root{};
  std::array<double, kScales> solution{};
  for (size_t i = 0; i < kScales; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double sum = products_[i * kScales + j] + (i == j ? kPrior : 0);
      for (size_t k = 0; k < j; ++k) sum -= root[i * kScales + k] * root[j * kScales + k];
      root[i * kScales + j] = i == j ? std::sqrt(std::max(sum, 1e-9)) : sum / root[j * kScales + j];
    }
  }
  for (size_t i = 0; i < kScales; ++i) {
    double sum = targets_[i] + kPrior / kScales;
    for (size_t k = 0; k < i; ++k) sum -= root[i * kScales + k] * solution[k];
    solution[i] = sum / root[i * kScales + i];
  }
  for (size_t i = kScales; i-- > 0;) {
    double sum = solution[i];
    for (size_t k = i + 1; k < kScales; ++k) sum -= root[k * kScales + i] * solution[k];
    solution[i] = sum / root[i * kScales + i];
  }
  for (size_t s = 0; s < kScales; ++s) weights_[s] = static_cast<float>(solution[s]);
}

}  // namespace yeoul
