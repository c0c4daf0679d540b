#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace yeoul {

// What deciding about resumption needs of a model, as counts.
struct ResumeShape {
  int32_t num_layers = 0;
  int32_t last_source = 0;  // the last layer with KV of its own; it and those after it narrow
  int32_t reach = 0;        // positions a window looks back: its size - 1
};

// First position whose window row of `layer` a prompt of `prompt_len` tokens reads when it resumes
// at `position`. Layers before the last source run over every token, so that they need the whole
// window; from there on only what the cone of the last position still touches (docs/numerics.md).
inline int64_t resume_window_begin(const ResumeShape& shape, int32_t layer, int64_t position,
                                   int64_t prompt_len) {
  const int64_t window = std::max<int64_t>(0, position - shape.reach);
  if (layer < shape.last_source) return window;
  const int64_t depth = shape.num_layers - layer;
  return std::max(window, prompt_len - 1 - shape.reach * depth);
}

// Whether a prompt may go on from a snapshot of its first `position` tokens and come to the bits of
// a cold run. first_valid: by layer, the first position whose window row the snapshot holds. At
// least one token must be left: the logits come from computing it.
inline bool can_resume(const ResumeShape& shape, std::span<const int64_t> first_valid,
                       int64_t position, int64_t prompt_len) {
  if (position >= prompt_len) return false;
  for (int32_t layer = 0; layer < shape.num_layers; ++layer) {
    const int64_t begin = resume_window_begin(shape, layer, position, prompt_len);
    if (begin < position && first_valid[static_cast<size_t>(layer)] > begin) return false;
  }
  return true;
}

}  // namespace yeoul
