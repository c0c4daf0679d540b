#pragma once

#include <cstddef>

#include "support/model_harness.h"

namespace yeoul::speed {

// How much of what a router chooses could be read ahead: the gate of the layer applied to the
// residual as it is one half layer (before the layer's attention) or three halves earlier.
struct GateForecast {
  double half_earlier = 0;    // share of the chosen experts among the forecast's best K
  double halves_earlier = 0;  // the same from before the attention of the layer before
  double last_token = 0;      // among the experts that the token before chose
  double by_chance = 0;       // K / E
};

// Over a text of made-up tokens.
GateForecast measure_gate_forecast(ModelHarness& model, size_t num_tokens);

}  // namespace yeoul::speed
