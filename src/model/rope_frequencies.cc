#include "model/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "backend/math_functions.h"

namespace yeoul {
namespace {

std::vector<float> inverse_powers(int32_t rope_dim, double base) {
  std::vector<float> frequencies;
  const double log_base = log_double(base);
  for (int32_t i = 0; i < rope_dim; i += 2) {
    const double exponent = static_cast<float>(i) / static_cast<float>(rope_dim);
    frequencies.push_back(1.0f / static_cast<float>(exp_double(exponent * log_base)));
  }
  return frequencies;
}

}  // namespace

std::vector<float> window_rope_frequencies(const ModelConfig& config) {
  return inverse_powers(config.qk_rope_head_dim, config.rope_theta);
}

std::vector<float> compressed_rope_frequencies(const ModelConfig& config) {
  const int32_t dim = config.qk_rope_head_dim;
  std::vector<float> frequencies = inverse_powers(dim, config.compress_rope_theta);
  const YarnConfig& yarn = config.rope_scaling;
  const auto correction = [&](double rotations) {
    const double period = static_cast<double>(yarn.original_max_position_embeddings) /
                          (rotations * 2 * std::numbers::pi);
    return dim * log_double(period) / (2 * log_double(config.compress_rope_theta));
  };
  const double low = std::max(std::floor(correction(yarn.beta_fast)), 0.0);
  const double high = std::min(std::ceil(correction(yarn.beta_slow)), dim - 1.0);
  const float width = static_cast<float>(std::max(high - low, 1e-3));
  const float factor = static_cast<float>(yarn.factor);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) / width, 0.0f, 1.0f);
    const float smooth = 1.0f - ramp;
    frequencies[i] = frequencies[i] / factor * (1.0f - smooth) + frequencies[i] * smooth;
  }
  return frequencies;
}

}  // namespace yeoul
