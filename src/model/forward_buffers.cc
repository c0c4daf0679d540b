#include "model/forward_buffers.h"

#include <algorithm>
#include <numeric>

#include "model/forward.h"

namespace yeoul {
namespace {

size_t size(int64_t n) {
  return static_cast<size_t>(n);
}

void reserve_parked(const ModelConfig& config, int64_t rows, ParkedRows& parked) {
  parked.streams.resize(size(rows * config.hc_mult * config.hidden_size));
  parked.pre.resize(size(rows * config.hc_mult));
  parked.selected.resize(size(rows * config.index_topk));
  parked.num_selected.resize(size(rows));
  parked.pool.resize(size(rows * config.candidate_topk_blocks));
  parked.num_pool.resize(size(rows));
  parked.compressed_ids.resize(size(rows));
  parked.history.reserve(16);
}

template <typename T>
int64_t bytes_of(const std::vector<T>& v) {
  return static_cast<int64_t>(v.capacity() * sizeof(T));
}

}  // namespace

ForwardBuffers::ForwardBuffers(const ModelConfig& c, const ForwardLimits& limits) {
  const int64_t t = limits.rows_max, h = c.hidden_size, copies = c.hc_mult;
  const int64_t half = c.qk_rope_head_dim / 2;
  positions.resize(size(t));
  item_of.resize(size(t));
  identity.resize(size(t));
  std::iota(identity.begin(), identity.end(), 0);
  is_image.resize(size(t));
  compressed_ids.resize(size(t));
  for (auto* table : {&window_cosine, &window_sine, &compressed_cosine, &compressed_sine,
                      &latent_cosine, &latent_sine}) {
    table->resize(size(t * half));
  }
  streams.resize(size(t * copies * h));
  pre.resize(size(t * copies));
  attn_pre.resize(size(t * copies));
  post.resize(size(t * copies));
  comb.resize(size(t * copies * copies));
  selected.resize(size(t * c.index_topk));
  num_selected.resize(size(t));
  pool.resize(size(t * c.candidate_topk_blocks));
  num_pool.resize(size(t));

  for (auto* rows : {&hidden, &source_hidden, &out, &shared}) rows->resize(size(t * h));
  q_low.resize(size(t * c.q_lora_rank));
  queries.resize(size(t * c.num_attention_heads * c.head_dim));
  heads.resize(queries.size());
  grouped.resize(size(t * c.o_groups * c.o_lora_rank));
  kv.resize(size(t * c.head_dim));
  keys.resize(size(t * c.index_head_dim));
  pair_values.resize(size(t * 2 * c.head_dim));
  pairs.resize(size(t));
  places.resize(size(t));
  latent_positions.resize(size(t));
  index_queries.resize(size(t * c.index_n_heads * c.index_head_dim));
  index_weights.resize(size(t * c.index_n_heads));
  experts.resize(size(t * c.num_experts_per_tok));
  expert_weights.resize(experts.size());
  foreseen.resize(experts.size());
  foreseen_weights.resize(experts.size());
  expert_rows.resize(experts.size());
  expert_places.resize(experts.size());
  expert_ids.reserve(size(c.n_routed_experts));
  expert_begins.reserve(size(c.n_routed_experts + 1));
  expert_out.resize(experts.size() * size(h));

  const int64_t columns = (c.engram_max_ngram_size - 1) * c.engram_n_heads;
  const int64_t lookups = static_cast<int64_t>(c.engram_layer_ids.size()) * t * columns;
  engram_rows.resize(size(lookups));
  engram_codes.resize(size(lookups * c.engram_head_dim));
  engram_scales.resize(size(lookups * c.engram_head_dim / 32));
  engram_input.resize(size(t * columns * c.engram_head_dim));
  engram_kv.resize(size(t * (copies + 1) * h));

  logits.resize(size(int64_t{limits.logit_rows_max} * c.vocab_size));
  parked.resize(size(limits.slots));
  for (ParkedRows& rows : parked) reserve_parked(c, limits.parked_rows_max, rows);
}

int64_t ForwardBuffers::num_bytes() const {
  int64_t total = 0;
  const auto add = [&](const auto&... vectors) { ((total += bytes_of(vectors)), ...); };
  add(positions, item_of, identity, is_image, compressed_ids, window_cosine, window_sine,
      compressed_cosine, compressed_sine, streams, pre, attn_pre, post, comb, selected,
      num_selected, pool, num_pool, hidden, source_hidden, out, q_low, queries, heads, grouped, kv,
      keys, pair_values, pairs, places, latent_positions, latent_cosine, latent_sine, index_queries,
      index_weights, experts, expert_weights, foreseen, foreseen_weights, expert_rows,
      expert_places, expert_ids, expert_begins, expert_out, shared, engram_rows, engram_codes,
      engram_scales, engram_input, engram_kv, logits);
  for (const ParkedRows& rows : parked) {
    add(rows.streams, rows.pre, rows.selected, rows.num_selected, rows.pool, rows.num_pool,
        rows.compressed_ids, rows.history);
  }
  return total;
}

}  // namespace yeoul
