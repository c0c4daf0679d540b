#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace yeoul {

// Which experts a run of tokens chose: step t * layers + l is token t at layer l, ascending ids.
struct RoutingTrace {
  std::string name;
  int32_t layers = 0;
  int32_t experts = 0;  // of a layer
  std::vector<std::vector<int32_t>> steps;
};

struct TraceShape {
  int32_t layers = 12;
  int32_t experts = 128;
  int32_t chosen = 6;
  int32_t tokens = 3000;
};

// Made-up routing, three families. Equal arguments give equal traces. A token draws its experts
// without replacement, with chances proportional to weights:
//   zipf    every layer has an order of its own; rank r weighs 1 / (r + 1)
//   topics  one of 32 topics, itself drawn by Zipf, lasts 100 tokens in the mean; every layer has
//           40 favourites of the topic that weigh 12 times what they weigh by a Zipf order of 1/2
//   phases  as zipf, and all orders are drawn anew every 600 tokens
RoutingTrace zipf_trace(const TraceShape& shape, uint64_t seed);
RoutingTrace topics_trace(const TraceShape& shape, uint64_t seed);
RoutingTrace phases_trace(const TraceShape& shape, uint64_t seed);

// A file that `yeoul logits --routing-trace` wrote: a line for each token and layer, with position,
// layer and chosen experts.
Result<RoutingTrace> read_routing_trace(const std::string& path);

// Hits over all uses of experts in a cache of `slots`. Every expert of a step must be there at
// once; one that was not there is a miss. `cold`: leading steps that are played but not counted.
struct HitRates {
  double lru = 0;
  double forecast = 0;  // ExpertCache
  double belady = 0;    // makes room for the expert used last in the future
};
HitRates play(const RoutingTrace& trace, int32_t slots, size_t cold);

}  // namespace yeoul
