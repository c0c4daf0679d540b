#pragma once

#include "base/result.h"
#include "checkpoint/config.h"

namespace yeoul {

// Whether the fields of `config`, each within its own range, fit together: list lengths, layer
// kinds and their sources, widths and quantisation groups. The error names the fields.
Result<void> check_consistency(const ModelConfig& config);

}  // namespace yeoul
