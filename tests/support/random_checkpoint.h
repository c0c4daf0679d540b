#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace yeoul {

// Checkpoints of the V4.1 architecture with random weights, in the released layout: for tests that
// need widths the embedded checkpoint does not have. Weights are scaled so that activations keep
// their size through the layers and the logits are well spread.

// config.json of a model with every kind of layer: window-only, ratio 2 with two sources, ratio 1
// with a candidate pool that cuts at 192 rows, two Engram layers. Window and top_k choose how the
// keys of a row fall into slot blocks of 64.
std::string random_config_json(int window = 64, int top_k = 64);

// The same with the widths of the reference's `small` checkpoint (384 channels, 14 layers, 32
// experts), without drafting and vision; 90 MB. For measuring.
std::string small_config_json();

// Writes shards, index and config.json for any config into an existing folder, and engram_map.json
// with a "token_map" of as many classes as the config states. Equal arguments give equal files.
Result<void> write_random_checkpoint(const std::string& config_json, const std::string& directory,
                                     uint64_t seed);

}  // namespace yeoul
