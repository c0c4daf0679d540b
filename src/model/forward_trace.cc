// Copies of intermediates for the trace, widened to float32.

#include <algorithm>
#include <iterator>

#include "model/forward.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul {

void Forward::trace_floats(std::string_view name, int32_t layer, const float* x,
                           std::initializer_list<int64_t> shape) const {
  if (trace_ == nullptr || !trace_->on_tensor) return;
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  trace_->on_tensor({name, layer, shape, std::vector<float>(x, x + count)});
}

// x: the rows one after another.
void Forward::trace_rows(std::string_view name, int32_t layer, const Bf16* x, RowIndex rows,
                         std::initializer_list<int64_t> row_shape) const {
  if (trace_ == nullptr || !trace_->on_tensor) return;
  auto count = static_cast<int64_t>(rows.size());
  std::vector<int64_t> shape = {count};
  for (const int64_t extent : row_shape) {
    shape.push_back(extent);
    count *= extent;
  }
  std::vector<float> values(static_cast<size_t>(count));
  std::transform(x, x + count, values.begin(), to_float);
  trace_->on_tensor({name, layer, std::move(shape), std::move(values)});
}

void Forward::trace_streams(std::string_view name, int32_t layer) const {
  trace_rows(name, layer, buffers_.streams.data(),
             {buffers_.identity.data(), static_cast<size_t>(num_rows_)},
             {config_.hc_mult, config_.hidden_size});
}

void Forward::trace_mixes(std::string_view half, int32_t layer, const float* pre) const {
  if (trace_ == nullptr) return;
  const std::string prefix = "hc_" + std::string(half) + "_";
  const int64_t copies = config_.hc_mult;
  trace_floats(prefix + "pre", layer, pre, {num_rows_, copies});
  trace_floats(prefix + "post", layer, buffers_.post.data(), {num_rows_, copies});
  trace_floats(prefix + "comb", layer, buffers_.comb.data(), {num_rows_, copies, copies});
}

void Forward::trace_window(int32_t layer, RowIndex rows) const {
  if (trace_ == nullptr) return;
  const auto width = static_cast<size_t>(config_.head_dim);
  std::vector<float> values(rows.size() * width);
  const KvView view = kv_.view(item_views_.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint8_t* row = view.staged_row(layer, rows[i]);
    decode_fp8_row(row, row + width, std::span(values).subspan(i * width, width));
  }
  trace_floats("window_rows", layer, values.data(),
               {static_cast<int64_t>(rows.size()), config_.head_dim});
}

// The stored rows of the last publish, as attention and the indexer will read them.
void Forward::trace_compressed(int32_t layer, int64_t num_latents) const {
  if (trace_ == nullptr) return;
  const auto width = static_cast<size_t>(config_.head_dim);
  const auto key_width = static_cast<size_t>(config_.index_head_dim);
  const auto m = static_cast<size_t>(num_latents);
  std::vector<float> rows(m * width), keys(m * key_width);
  for (size_t i = 0; i < m; ++i) {
    const CompressedRowPlace& place = buffers_.places[i];
    decode_compressed_row(place.codes, place.scales, std::span(rows).subspan(i * width, width));
    decode_index_row(place.key_codes, place.key_scales,
                     std::span(keys).subspan(i * key_width, key_width));
  }
  trace_floats("compressed_rows", layer, rows.data(), {num_latents, config_.head_dim});
  trace_floats("index_keys", layer, keys.data(), {num_latents, config_.index_head_dim});
}

void Forward::trace_index_queries(int32_t layer, int64_t rows) const {
  const auto width = static_cast<size_t>(config_.index_head_dim);
  const size_t count = static_cast<size_t>(rows * config_.index_n_heads) * width;
  std::vector<float> values(count);
  std::transform(buffers_.index_queries.data(), buffers_.index_queries.data() + count,
                 values.begin(), to_float);
  std::vector<uint8_t> codes(width / 2), scales(width / kIndexGroup);
  for (size_t at = 0; at < count; at += width) {
    const std::span<float> head(values.data() + at, width);
    encode_index_row(head, codes.data(), scales.data());
    decode_index_row(codes.data(), scales.data(), head);
  }
  trace_floats("index_q", layer, values.data(),
               {rows, config_.index_n_heads, config_.index_head_dim});
}

void Forward::trace_engram(int32_t layer, int32_t e, const std::vector<float>& gates) const {
  const auto columns = static_cast<size_t>(engram_hash_.num_columns());
  std::vector<float> rows;  // table rows of small checkpoints are exact in float32
  for (const int32_t row : input_rows_) {
    const int64_t* first = buffers_.engram_rows.data() + engram_place(e, row);
    std::transform(first, first + columns, std::back_inserter(rows),
                   [](int64_t index) { return static_cast<float>(index); });
  }
  const auto n = static_cast<int64_t>(input_rows_.size());
  trace_floats("engram_rows", layer, rows.data(), {n, static_cast<int64_t>(columns)});
  trace_floats("engram_gate", layer, gates.data(), {n, config_.hc_mult});
}

void Forward::trace_selection(int32_t layer, RowIndex rows, bool with_pool) const {
  if (trace_ == nullptr) return;
  const auto emit = [&](std::string_view name, const std::vector<int32_t>& lists,
                        const std::vector<int32_t>& counts, int64_t width) {
    std::vector<float> values;
    for (const int32_t row : rows) {
      const auto begin = lists.begin() + row * width;
      for (int64_t j = 0; j < width; ++j) {
        const bool present = j < counts[static_cast<size_t>(row)];
        values.push_back(present ? static_cast<float>(begin[j]) : -1.0f);
      }
    }
    trace_floats(name, layer, values.data(), {static_cast<int64_t>(rows.size()), width});
  };
  emit("selected", buffers_.selected, buffers_.num_selected, config_.index_topk);
  if (with_pool) {
    emit("pool", buffers_.pool, buffers_.num_pool, config_.candidate_topk_blocks);
  }
}

}  // namespace yeoul
