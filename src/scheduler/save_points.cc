#include "scheduler/save_points.h"

#include <algorithm>

namespace yeoul {

void append_save_points(const Sequence& sequence, int64_t begin, int64_t end, int64_t interval,
                        std::vector<int64_t>& points) {
  const auto first = std::ssize(points);
  const int64_t last = sequence.prompt_len() - 1;
  const auto add = [&](int64_t position) {
    if (position > begin && position <= end) points.push_back(position);
  };
  bool has_anchor_near_end = false;
  for (const Anchor& anchor : sequence.anchors()) {
    add(anchor.position);
    has_anchor_near_end = has_anchor_near_end || anchor.position >= last + 1 - kNearEnd;
  }
  if (!has_anchor_near_end) add(last);
  if (interval > 0)
    for (int64_t at = begin / interval * interval + interval; at <= std::min(end, last);
         at += interval)
      add(at);
  std::sort(points.begin() + first, points.end());
  points.erase(std::unique(points.begin() + first, points.end()), points.end());
}

int64_t save_points_max(int64_t num_tokens, int64_t interval) {
  return static_cast<int64_t>(Sequence::kAnchorsMax) + 1 +
         (interval > 0 ? num_tokens / interval + 1 : 0);
}

}  // namespace yeoul
