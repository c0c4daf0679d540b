#pragma once

#include <vector>

#include "checkpoint/config.h"

namespace yeoul {

// R/2 rotary frequencies in float32. Window-only layers: 1 / base^(2i/R), power and reciprocal each
// rounded (model-findings F6). Layers with compressed rows: that with compress_rope_theta and YaRN
// (model.md section 3.4; clamps of finding F4).
std::vector<float> window_rope_frequencies(const ModelConfig& config);
std::vector<float> compressed_rope_frequencies(const ModelConfig& config);

}  // namespace yeoul
