// Attention of one layer: queries, window rows, KV source work, selection, softmax, grouped output
// (model.md sections 3.4 to 3.6).

#include "base/check.h"
#include "model/forward.h"

namespace yeoul {

// hidden -> out, [n, H] both.
void Forward::attention(int32_t layer, RowIndex rows) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(rows.size());
  const int32_t heads = config_.num_attention_heads;
  const int32_t ratio = config_.compress_ratios[static_cast<size_t>(layer)];
  queries(layer, rows);
  if (w.indexer) select(layer, rows);

  const SourceLayout* source = ratio == 0 ? nullptr : &kv_.source(config_.kv_source_of(layer));
  ops_.attention({buffers_.queries.data(), rows, buffers_.positions.data(), buffers_.item_of.data(),
                  layer, heads, source, buffers_.selected.data(), buffers_.num_selected.data(),
                  config_.index_topk, w.attn_sink, kv_.view(item_views_.data()),
                  buffers_.heads.data()});
  trace_rows("attn_heads", layer, buffers_.heads.data(), rows, {heads, config_.head_dim});
  rope(buffers_.heads.data(), rows, heads, config_.head_dim, ratio != 0, true);

  // Each group of heads has its own slice of wo_a.
  const int64_t group_inputs = int64_t{heads} * config_.head_dim / config_.o_groups;
  const int64_t group_outputs = config_.o_lora_rank;
  for (int64_t g = 0; g < config_.o_groups; ++g) {
    ops_.linear({row_range(w.wo_a.weight, g * group_outputs, group_outputs), w.wo_a.activation,
                 buffers_.heads.data() + g * group_inputs, int64_t{heads} * config_.head_dim, n,
                 buffers_.grouped.data() + g * group_outputs, nullptr,
                 config_.o_groups * group_outputs});
  }
  linear(w.wo_b, buffers_.grouped.data(), n, buffers_.out.data());
}

void Forward::queries(int32_t layer, RowIndex rows) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(rows.size());
  linear(w.wq_a, buffers_.hidden.data(), n, buffers_.q_low.data());
  norm(w.q_norm, n, config_.q_lora_rank, buffers_.q_low.data());
  linear(w.wq_b, buffers_.q_low.data(), n, buffers_.queries.data());
  rope(buffers_.queries.data(), rows, config_.num_attention_heads, config_.head_dim,
       config_.compress_ratios[static_cast<size_t>(layer)] != 0, false);
  trace_rows("q", layer, buffers_.queries.data(), rows,
             {config_.num_attention_heads, config_.head_dim});
}

void Forward::window_rows(int32_t layer, RowIndex rows, const Bf16* u) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(rows.size());
  linear(w.wkv, u, n, buffers_.kv.data());
  norm(w.kv_norm, n, config_.head_dim, buffers_.kv.data());
  rope(buffers_.kv.data(), rows, 1, config_.head_dim,
       config_.compress_ratios[static_cast<size_t>(layer)] != 0, false);
  ops_.stage_window({buffers_.kv.data(), rows, layer, kv_.view(item_views_.data())});
  trace_window(layer, rows);
}

// KV source work: latents of the groups these rows close -> index keys and compressed rows.
void Forward::publish(int32_t layer, RowIndex rows, const Bf16* u) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const int64_t m = pool_latents(layer, rows, u);
  if (m == 0) return;
  norm(w.compressor->norm, m, config_.head_dim, buffers_.kv.data());
  const RowIndex latents(buffers_.identity.data(), static_cast<size_t>(m));
  trace_rows("latent", layer, buffers_.kv.data(), latents, {config_.head_dim});

  ops_.rope_table({{buffers_.latent_positions.data(), static_cast<size_t>(m)},
                   compressed_frequencies_,
                   buffers_.latent_cosine.data(),
                   buffers_.latent_sine.data()});
  const auto rotate = [&](Bf16* x, int64_t width) {
    ops_.rope({x, m, 1, width, config_.qk_rope_head_dim, buffers_.latent_cosine.data(),
               buffers_.latent_sine.data(), latents, false});
  };
  // Keys come from the latent before its rotation.
  linear(*w.indexer->wk, buffers_.kv.data(), m, buffers_.keys.data());
  norm(w.indexer->k_norm, m, config_.index_head_dim, buffers_.keys.data());
  rotate(buffers_.keys.data(), config_.index_head_dim);
  rotate(buffers_.kv.data(), config_.head_dim);
  ops_.store_compressed({buffers_.kv.data(),
                         buffers_.keys.data(),
                         {buffers_.places.data(), static_cast<size_t>(m)},
                         config_.head_dim,
                         config_.index_head_dim});
  trace_compressed(layer, m);
}

// Latents before their norm into buffers_.kv, with the places of their rows. Returns their number.
int64_t Forward::pool_latents(int32_t layer, RowIndex rows, const Bf16* u) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const SourceLayout& source = kv_.source(layer);
  const KvView view = kv_.view(item_views_.data());
  const KvLayout& layout = kv_.layout();
  const auto n = static_cast<int64_t>(rows.size());
  const int64_t width = config_.head_dim;
  int64_t m = 0;
  const auto add_place = [&](int32_t row, int64_t position) {
    const int64_t group = position / source.ratio;
    int64_t at = 0;
    uint8_t* page =
        view.page_of(item_views_[static_cast<size_t>(buffers_.item_of[static_cast<size_t>(row)])],
                     source, group, &at);
    buffers_.places[static_cast<size_t>(m)] = {
        page + source.codes_offset + at * layout.code_bytes(),
        page + source.scales_offset + at * layout.scale_bytes(),
        page + source.key_codes_offset + at * layout.key_code_bytes(),
        page + source.key_scales_offset + at * layout.key_scale_bytes()};
    buffers_.latent_positions[static_cast<size_t>(m++)] = group * source.ratio;
  };
  if (source.ratio == 1) {
    linear(w.compressor->wkv, u, n, buffers_.kv.data());
    for (const int32_t row : rows) add_place(row, buffers_.positions[static_cast<size_t>(row)]);
    return m;
  }
  CHECK(source.ratio == 2);
  float* values = buffers_.pair_values.data();
  float* scores = values + n * width;
  linear(w.compressor->wkv, u, n, values);
  linear(*w.compressor->wgate, u, n, scores);
  for (int64_t i = 0; i < n; ++i) {
    const int32_t row = rows[static_cast<size_t>(i)];
    float* staged = kv_.staged_pair(layer, row);
    std::copy_n(values + i * width, width, staged);
    std::copy_n(scores + i * width, width, staged + width);
    const int64_t position = buffers_.positions[static_cast<size_t>(row)];
    if (position % 2 == 0) continue;
    const ItemInput& item = items_[static_cast<size_t>(buffers_.item_of[static_cast<size_t>(row)])];
    const float* first = position == item.position ? kv_.open_pair(item.slot, layer)
                                                   : kv_.staged_pair(layer, row - 1);
    buffers_.pairs[static_cast<size_t>(m)] = {first, first + width, staged, staged + width};
    add_place(row, position);
  }
  ops_.compress_pairs({{buffers_.pairs.data(), static_cast<size_t>(m)}, width, buffers_.kv.data()});
  return m;
}

// Index queries, scores and the selection that this layer and those behind it use.
void Forward::select(int32_t layer, RowIndex rows) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(rows.size());
  linear(w.indexer->wq_b, buffers_.q_low.data(), n, buffers_.index_queries.data());
  rope(buffers_.index_queries.data(), rows, config_.index_n_heads, config_.index_head_dim, true,
       false);
  linear(w.indexer->weights_proj, buffers_.hidden.data(), n, buffers_.index_weights.data());
  using Pool = IndexSelectArgs::Pool;
  const int32_t pool_source = config_.candidate_source_layer_id;
  const Pool mode = pool_source < 0 || layer < pool_source ? Pool::kNone
                    : layer == pool_source                 ? Pool::kFill
                                                           : Pool::kUse;
  std::vector<float> scores;
  int64_t scored = 0;
  if (trace_ != nullptr) {
    const SourceLayout& source = kv_.source(config_.kv_source_of(layer));
    for (const int32_t row : rows) {
      scored = std::max(scored, (buffers_.positions[static_cast<size_t>(row)] + 1) / source.ratio);
    }
    scores.resize(static_cast<size_t>(n * scored));
  }
  ops_.index_select({buffers_.index_queries.data(), buffers_.index_weights.data(), rows,
                     buffers_.positions.data(), buffers_.item_of.data(),
                     kv_.source(config_.kv_source_of(layer)), kv_.view(item_views_.data()),
                     config_.index_n_heads, config_.index_topk, buffers_.selected.data(),
                     buffers_.num_selected.data(), mode, config_.candidate_block_size,
                     config_.candidate_topk_blocks, buffers_.pool.data(), buffers_.num_pool.data(),
                     scores.empty() ? nullptr : scores.data(), scored});
  if (trace_ != nullptr) {
    trace_index_queries(layer, n);
    trace_floats("index_scores", layer, scores.data(), {n, scored});
    trace_selection(layer, rows, mode == Pool::kFill);
  }
}

}  // namespace yeoul
