#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/token.h"
#include "cache/resume_rule.h"
#include "scheduler/sequence.h"

namespace yeoul {

// A follower waits for a leader only for at least this many tokens that it need not compute itself.
inline constexpr int64_t kWorthWaiting = 16;

// Number of tokens at the front that are the same.
int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b);

// Where a prompt of follower_len tokens that shares the first shared_len with `leader` can go on
// from what the leader has yet to compute: the anchor that the leader would have to keep, nullopt
// if there is none. The end of the shared part, with a cone of its own where the follower is
// shorter than the leader and the leader has not come too far for that; else the last position
// behind which the follower needs no rows of the decoder half.
std::optional<Anchor> fork_point(const ResumeShape& shape, const Sequence& leader,
                                 int64_t shared_len, int64_t follower_len);

}  // namespace yeoul
