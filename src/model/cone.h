#pragma once

#include <algorithm>
#include <cstdint>

#include "checkpoint/config.h"

namespace yeoul {

// Which rows of a prompt a decoder layer needs (docs/numerics.md, "the cone"). Immutable.
class Cone {
 public:
  explicit Cone(const ModelConfig& config)
      : num_layers_(config.num_hidden_layers),
        last_source_(config.kv_source_layer_ids.empty() ? config.num_hidden_layers
                                                        : config.kv_source_layer_ids.back()),
        reach_(config.sliding_window - 1) {}

  // First position whose row must pass completely through `layer`. cone_end: prompt length, or
  // negative for the full schedule.
  int64_t output_begin(int32_t layer, int64_t cone_end) const {
    if (cone_end < 0 || layer < last_source_) return 0;
    return std::max<int64_t>(0, cone_end - 1 - reach_ * (num_layers_ - 1 - layer));
  }
  // First position whose window row of `layer` is needed.
  int64_t window_begin(int32_t layer, int64_t cone_end) const {
    if (cone_end < 0 || layer < last_source_) return 0;
    return std::max<int64_t>(0, cone_end - 1 - reach_ * (num_layers_ - layer));
  }
  // First position that reaches `layer` at all: the last KV source works for every token.
  int64_t input_begin(int32_t layer, int64_t cone_end) const {
    return layer <= last_source_ ? 0 : window_begin(layer, cone_end);
  }

 private:
  int32_t num_layers_;
  int32_t last_source_;
  int64_t reach_;
};

}  // namespace yeoul
