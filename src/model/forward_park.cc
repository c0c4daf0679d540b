// Rows that stop after a layer and go on from there in a later step: the seam that layer-major
// prefill uses. All that a row carries between layers travels with it, its selections included.

#include <algorithm>

#include "base/check.h"
#include "model/forward.h"

namespace yeoul {
namespace {

// Copies `rows` rows of `width` values between two places of the same layout.
template <typename T>
void copy_rows(const std::vector<T>& from, int64_t from_row, std::vector<T>& to, int64_t to_row,
               int64_t rows, int64_t width) {
  std::copy_n(from.begin() + from_row * width, rows * width, to.begin() + to_row * width);
}

}  // namespace

void Forward::park(const StepInput& input, int32_t layer_end) {
  for (const ItemInput& item : input.items) {
    if (item.layer_end != layer_end || layer_end == config_.num_hidden_layers) continue;
    CHECK(item.num_rows <= limits_.parked_rows_max, "{} rows to park, {} allowed", item.num_rows,
          limits_.parked_rows_max);
    ParkedRows& parked = buffers_.parked[static_cast<size_t>(item.slot)];
    parked.position = item.position;
    parked.num_rows = item.num_rows;
    parked.next_layer = layer_end;
    const int64_t copies = config_.hc_mult;
    copy_rows(buffers_.streams, item.first_row, parked.streams, 0, item.num_rows,
              copies * config_.hidden_size);
    copy_rows(buffers_.pre, item.first_row, parked.pre, 0, item.num_rows, copies);
    copy_rows(buffers_.selected, item.first_row, parked.selected, 0, item.num_rows,
              config_.index_topk);
    copy_rows(buffers_.num_selected, item.first_row, parked.num_selected, 0, item.num_rows, 1);
    copy_rows(buffers_.pool, item.first_row, parked.pool, 0, item.num_rows,
              config_.candidate_topk_blocks);
    copy_rows(buffers_.num_pool, item.first_row, parked.num_pool, 0, item.num_rows, 1);
    if (item.layer_begin == 0) {  // the ids before this item; commit moves them on
      const std::span<const int32_t> history = kv_.history(item.slot);
      parked.history.assign(history.begin(), history.end());
    }
  }
}

void Forward::unpark(const StepInput& input, int32_t layer_begin) {
  if (layer_begin == 0) return;
  for (const ItemInput& item : input.items) {
    if (item.layer_begin != layer_begin) continue;
    ParkedRows& parked = buffers_.parked[static_cast<size_t>(item.slot)];
    CHECK(parked.next_layer == layer_begin && parked.position == item.position &&
              parked.num_rows == item.num_rows,
          "slot {}: rows {}+{} were parked before layer {}, the plan asks for {}+{} from layer {}",
          item.slot, parked.position, parked.num_rows, parked.next_layer, item.position,
          item.num_rows, layer_begin);
    const int64_t copies = config_.hc_mult;
    copy_rows(parked.streams, 0, buffers_.streams, item.first_row, item.num_rows,
              copies * config_.hidden_size);
    copy_rows(parked.pre, 0, buffers_.pre, item.first_row, item.num_rows, copies);
    copy_rows(parked.selected, 0, buffers_.selected, item.first_row, item.num_rows,
              config_.index_topk);
    copy_rows(parked.num_selected, 0, buffers_.num_selected, item.first_row, item.num_rows, 1);
    copy_rows(parked.pool, 0, buffers_.pool, item.first_row, item.num_rows,
              config_.candidate_topk_blocks);
    copy_rows(parked.num_pool, 0, buffers_.num_pool, item.first_row, item.num_rows, 1);
    parked.num_rows = 0;
  }
}

}  // namespace yeoul
