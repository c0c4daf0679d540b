#pragma once

#include <cstdint>

namespace yeoul::parity {

// Rows of logits that differ from those of a lone run of the whole prompt, over both test models:
// chunk sizes, threads, 16 sequences decoding together, the cone, and a run resumed in another
// slot. tests/parity covers more; this is the sum that a claim states.
struct Law1Count {
  int64_t compared = 0;
  int64_t differing = 0;
};
Law1Count count_law1_differences();

}  // namespace yeoul::parity
