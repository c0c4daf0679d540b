#pragma once

#include <string>

namespace yeoul::speed {

// Writes engram_map.json beside a checkpoint's tokenizer and returns its path: the harness reads
// the token map from a file. Dies when it cannot.
std::string write_token_map(const std::string& checkpoint);

}  // namespace yeoul::speed
