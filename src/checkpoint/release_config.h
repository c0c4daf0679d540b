#pragma once

#include <cstdint>

#include "base/result.h"
#include "checkpoint/config.h"

namespace yeoul {

// The configuration of DeepSeek-V4.1-Flash-1017 (model.md section 1).
ModelConfig release_config();

// The release's configuration with `num_layers` layers, 4 or more: two that only have the window,
// about as large a share with ratio 2 as the release has, the rest with ratio 1, and sources every
// 6 and every 4 layers as there. Engram stands on layer 1 and, where the encoder reaches so far, on
// layer 14. Neither draft stages nor vision. kInvalidArgument: fewer layers, or more than 1024.
Result<ModelConfig> slice_config(int32_t num_layers);

}  // namespace yeoul
