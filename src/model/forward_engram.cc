// Engram: addresses, reads and injection (model.md section 4).

#include <algorithm>
#include <array>

#include "base/check.h"
#include "model/forward.h"

namespace yeoul {

// Token ids are all it takes to know the rows, so the whole step's reads are issued before layer 0.
void Forward::read_engram_rows(const StepInput& input) {
  weights_.engram_rows().begin();
  for (int32_t e = 0; e < engram_hash_.num_layers(); ++e) {
    const int32_t layer = config_.engram_layer_ids[static_cast<size_t>(e)];
    for (const ItemInput& item : input.items) {
      if (layer >= item.layer_begin && layer < item.layer_end) address_engram_item(e, item);
    }
  }
  weights_.engram_rows().start();
}

// Names all rows of one item in Engram layer number e.
void Forward::address_engram_item(int32_t e, const ItemInput& item) {
  const auto columns = static_cast<size_t>(engram_hash_.num_columns());
  const auto width = static_cast<size_t>(config_.engram_head_dim);
  const auto history_len = static_cast<int64_t>(engram_hash_.history_len());
  const ParkedRows& parked = buffers_.parked[static_cast<size_t>(item.slot)];
  const std::span<const int32_t> history =
      item.layer_begin == 0 ? kv_.history(item.slot) : std::span<const int32_t>(parked.history);
  std::array<int32_t, 16> ids{};
  CHECK(history_len < static_cast<int64_t>(ids.size()));
  for (int32_t r = 0; r < item.num_rows; ++r) {
    // Compressed ids of this position and of those before it: of the item, else of the history.
    size_t count = 0;
    for (int64_t at = r - history_len; at <= r; ++at) {
      const int64_t in_history = static_cast<int64_t>(history.size()) + at;
      if (at >= 0) {
        ids[count++] = buffers_.compressed_ids[static_cast<size_t>(item.first_row + at)];
      } else if (in_history >= 0) {
        ids[count++] = history[static_cast<size_t>(in_history)];
      }
    }
    const int32_t row = item.first_row + r;
    const size_t place = engram_place(e, row);
    const std::span<int64_t> rows(buffers_.engram_rows.data() + place, columns);
    engram_hash_.rows(e, {ids.data(), count}, rows);
    for (size_t c = 0; c < columns; ++c) {
      weights_.engram_rows().want({e, row, rows[c],
                                   buffers_.engram_codes.data() + (place + c) * width,
                                   buffers_.engram_scales.data() + (place + c) * (width / 32)});
    }
  }
}

size_t Forward::engram_place(int32_t e, int32_t step_row) const {
  return (static_cast<size_t>(e) * static_cast<size_t>(limits_.rows_max) +
          static_cast<size_t>(step_row)) *
         static_cast<size_t>(engram_hash_.num_columns());
}

void Forward::inject_engram(int32_t layer) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  if (!w.engram) return;
  const auto& ids = config_.engram_layer_ids;
  const auto e = static_cast<int32_t>(std::find(ids.begin(), ids.end(), layer) - ids.begin());
  weights_.engram_rows().wait(e);
  for (const EngramRows::Failure& failure : weights_.engram_rows().failures()) {
    if (failure.table != e) continue;
    fail_item(buffers_.item_of[static_cast<size_t>(failure.step_row)], failure.error);
  }
  const auto columns = static_cast<size_t>(engram_hash_.num_columns());
  const auto width = static_cast<size_t>(config_.engram_head_dim);
  const auto n = static_cast<int64_t>(input_rows_.size());
  for (size_t i = 0; i < input_rows_.size(); ++i) {
    const size_t place = engram_place(e, input_rows_[i]);
    ops_.engram_decode({buffers_.engram_codes.data() + place * width,
                        buffers_.engram_scales.data() + place * (width / 32),
                        static_cast<int64_t>(columns), config_.engram_head_dim,
                        buffers_.engram_input.data() + i * columns * width});
  }
  linear(w.engram->wkv, buffers_.engram_input.data(), n, buffers_.engram_kv.data());
  std::vector<float> gates;
  if (trace_ != nullptr) gates.resize(static_cast<size_t>(n * config_.hc_mult));
  ops_.engram_inject({buffers_.engram_kv.data(), w.engram->q_weight, w.engram->k_weight,
                      input_rows_, buffers_.is_image.data(), config_.hidden_size, config_.hc_mult,
                      static_cast<float>(config_.rms_norm_eps), buffers_.streams.data(),
                      gates.empty() ? nullptr : gates.data()});
  if (trace_ != nullptr) trace_engram(layer, e, gates);
}

}  // namespace yeoul
