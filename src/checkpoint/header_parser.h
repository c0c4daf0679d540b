#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"

namespace yeoul {

// First half of parse_header: the entries of the JSON text in its own order, each complete and
// with numbers in range; whether they fit together is not looked at.
Result<std::vector<HeaderTensor>> parse_header_entries(std::string_view json);

}  // namespace yeoul
