#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/sequence.h"

namespace yeoul {

// An anchor this close to the end of the prompt makes the state at its last token but one needless.
inline constexpr int64_t kNearEnd = 8;

// Appends, ascending, the positions in (begin, end] of a prompt after which its state is kept: the
// anchors; every `interval` tokens (0: none); and one token before the end, so that the same
// prompt, asked again, has one token left to compute. Does not allocate while the capacity
// suffices.
void append_save_points(const Sequence& sequence, int64_t begin, int64_t end, int64_t interval,
                        std::vector<int64_t>& points);

// Most of them that `num_tokens` tokens can have.
int64_t save_points_max(int64_t num_tokens, int64_t interval);

}  // namespace yeoul
