#pragma once

#include <cstdint>

namespace yeoul {

// Index into the model's vocabulary, 0 .. vocab_size - 1.
using TokenId = int32_t;

}  // namespace yeoul
