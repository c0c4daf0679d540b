#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tensor/formats/bf16.h"

namespace yeoul {

// A look inside the forward pass, for comparison with a reference and for finding faults. Costs
// copies and allocations; off when the functions are empty. Names and shapes are those of the
// golden data (tests/golden/README.md): "attn_in", "q", ..., values widened to float32.
struct Trace {
  struct Tensor {
    std::string_view name;
    int32_t layer = -1;  // -1: not of a layer
    std::vector<int64_t> shape;
    std::vector<float> values;
  };
  std::function<void(const Tensor&)> on_tensor;
  // Called before each layer with its inputs, which it may replace:
  // streams [T, C, H], pre [T, C].
  std::function<void(int32_t layer, Bf16* streams, float* pre)> before_layer;
};

}  // namespace yeoul
