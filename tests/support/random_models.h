#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "checkpoint/config.h"

namespace yeoul {

// Models with random weights for tests that need widths the embedded checkpoint does not have.

// Every kind of layer: window-only, ratio 2 with two sources, ratio 1 with a candidate pool that
// cuts at 192 rows, two Engram layers. Window and top_k choose how the keys of a row fall into slot
// blocks of 64.
ModelConfig random_model_config(int window = 64, int top_k = 64);

// The same with the widths of the reference's `small` checkpoint (384 channels, 14 layers, 32
// experts), without drafting and vision; 90 MB. For measuring.
ModelConfig small_model_config();

// Writes a checkpoint of any config into an empty folder, and engram_map.json with a "token_map" of
// as many classes as the config states. Every shard holds its tensors backwards, so that nobody may
// rely on their order. Equal arguments give equal files.
Result<void> write_random_model(const ModelConfig& config, const std::string& directory,
                                uint64_t seed);

}  // namespace yeoul
