#include "scheduler/prefix_sharing.h"

#include <algorithm>

namespace yeoul {
namespace {

// Whether the rows that a cone ending at `cone_end` leaves before `position` are all that a prompt
// of prompt_len tokens reads of them.
bool serves(const ResumeShape& shape, int64_t cone_end, int64_t position, int64_t prompt_len) {
  for (int32_t layer = shape.last_source; layer < shape.num_layers; ++layer) {
    const int64_t wanted = resume_window_begin(shape, layer, position, prompt_len);
    const int64_t kept = resume_window_begin(shape, layer, position, cone_end);
    if (wanted < position && kept > wanted) return false;
  }
  return true;
}

// First position whose decoder rows a prompt of `prompt_len` tokens may need.
int64_t cone_begin(const ResumeShape& shape, int64_t prompt_len) {
  return prompt_len - 1 - int64_t{shape.reach} * (shape.num_layers - shape.last_source);
}

}  // namespace

int64_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
  const size_t size = std::min(a.size(), b.size());
  return std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(size), b.begin()).first -
         a.begin();
}

std::optional<Anchor> fork_point(const ResumeShape& shape, const Sequence& leader,
                                 int64_t shared_len, int64_t follower_len) {
  const int64_t ahead = leader.committed_len();
  const int64_t end = std::min({shared_len, follower_len - 1, leader.prompt_len() - 1});
  if (end <= ahead) return std::nullopt;
  // Tokens before `end` are computed under the cone that ends next behind it, or at it.
  int64_t cone_end = leader.prefill_len();
  for (const Anchor& anchor : leader.anchors())
    if (anchor.own_cone && anchor.position >= end) cone_end = std::min(cone_end, anchor.position);
  if (serves(shape, cone_end, end, follower_len)) return Anchor{.position = end};
  const bool is_early = ahead <= cone_begin(shape, end) || leader.cone_end() <= end;
  if (is_early) return Anchor{.position = end, .own_cone = true};
  const int64_t before = std::min(end, cone_begin(shape, follower_len));
  if (before <= ahead) return std::nullopt;
  return Anchor{.position = before};
}

}  // namespace yeoul
