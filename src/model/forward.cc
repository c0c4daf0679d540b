#include "model/forward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/fault.h"
#include "model/rope_frequencies.h"

namespace yeoul {
namespace {

StepKind kind_of(const StepInput& input) {
  const bool is_prefill = std::any_of(input.items.begin(), input.items.end(),
                                      [](const ItemInput& item) { return item.num_rows > 1; });
  return is_prefill ? StepKind::kPrefill : StepKind::kDecode;
}

}  // namespace

Forward::Forward(const Weights& weights, const EngramHash& engram_hash, Ops& ops, KvStore& kv,
                 const ForwardLimits& limits)
    : weights_(weights),
      config_(weights.config()),
      engram_hash_(engram_hash),
      ops_(ops),
      kv_(kv),
      limits_(limits),
      cone_(config_),
      buffers_(config_, limits),
      window_frequencies_(window_rope_frequencies(config_)),
      compressed_frequencies_(compressed_rope_frequencies(config_)) {
  CHECK(kv.limits().rows_max >= limits.rows_max && kv.limits().slots >= limits.slots);
  item_views_.resize(static_cast<size_t>(limits.items_max));
  outcomes_.reserve(static_cast<size_t>(limits.items_max));
  for (auto* rows : {&input_rows_, &window_rows_, &output_rows_}) {
    rows->reserve(static_cast<size_t>(limits.rows_max));
  }
}

OpsLimits Forward::ops_limits(const ModelConfig& c, const ForwardLimits& limits) {
  OpsLimits ops;
  const int64_t engram_inputs =
      int64_t{c.engram_max_ngram_size - 1} * c.engram_n_heads * c.engram_head_dim;
  ops.linear_inputs_max =
      std::max({int64_t{c.hidden_size}, int64_t{c.q_lora_rank}, int64_t{c.o_groups} * c.o_lora_rank,
                int64_t{c.num_attention_heads} * c.head_dim / c.o_groups, int64_t{c.head_dim},
                engram_inputs});
  ops.hidden = c.hidden_size;
  ops.copies = c.hc_mult;
  ops.heads = c.num_attention_heads;
  ops.head_dim = c.head_dim;
  ops.window = c.sliding_window;
  ops.top_k = c.index_topk;
  ops.index_heads = c.index_n_heads;
  ops.index_head_dim = c.index_head_dim;
  ops.index_rows_max = limits.context_max;
  ops.block_size = c.candidate_block_size;
  ops.experts = c.n_routed_experts;
  ops.expert_width = c.moe_intermediate_size;
  return ops;
}

int64_t Forward::buffer_bytes(const ModelConfig& config, const ForwardLimits& limits) {
  // Buffers grow linearly with rows, logit rows and parked rows: three small sets give the slopes.
  const auto bytes = [&](int32_t rows, int32_t logits, int32_t parked) {
    ForwardLimits part = limits;
    part.rows_max = rows, part.logit_rows_max = logits, part.parked_rows_max = parked;
    return ForwardBuffers(config, part).num_bytes();
  };
  const int64_t base = bytes(1, 1, 0);
  return base + (bytes(2, 1, 0) - base) * (limits.rows_max - 1) +
         (bytes(1, 2, 0) - base) * (limits.logit_rows_max - 1) +
         (bytes(1, 1, 1) - base) * limits.parked_rows_max;
}

std::span<const float> Forward::logits(int32_t logit_row) const {
  const auto vocab = static_cast<size_t>(config_.vocab_size);
  return {buffers_.logits.data() + static_cast<size_t>(logit_row) * vocab, vocab};
}

void Forward::run(const StepInput& input, const Trace* trace) {
  trace_ = trace;
  if (profile_ != nullptr) profile_->begin_step(kind_of(input), std::ssize(input.tokens));
  begin(input);
  read_engram_rows(input);
  for (int32_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
    if (profile_ != nullptr) profile_->enter_layer(layer);
    unpark(input, layer);
    if (trace_ != nullptr && trace_->before_layer) {
      trace_->before_layer(layer, buffers_.streams.data(), buffers_.pre.data());
    }
    run_layer(layer);
    park(input, layer + 1);
  }
  if (profile_ != nullptr) profile_->enter_layer(StepProfile::kNoLayer);
  finish(input);
  if (profile_ != nullptr) profile_->end_step();
  trace_ = nullptr;
}

// Row tables, embeddings of the items that start at layer 0 and their first collapse weights.
void Forward::begin(const StepInput& input) {
  CHECK(input.items.size() <= static_cast<size_t>(limits_.items_max));
  CHECK(input.tokens.size() <= static_cast<size_t>(limits_.rows_max));
  items_ = input.items;
  num_rows_ = static_cast<int32_t>(input.tokens.size());
  outcomes_.clear();
  outcomes_.resize(input.items.size());
  const auto rows = static_cast<size_t>(num_rows_);
  for (size_t t = 0; t < rows; ++t) {
    buffers_.is_image[t] = input.is_image.empty() ? 0 : input.is_image[t];
    buffers_.compressed_ids[t] =
        engram_hash_.compressed(input.tokens[t], buffers_.is_image[t] != 0);
  }
  for (size_t i = 0; i < input.items.size(); ++i) {
    const ItemInput& item = input.items[i];
    CHECK(item.position + item.num_rows <= limits_.context_max);
    item_views_[i] = {item.slot, item.first_row, item.num_rows, item.position, item.pages, 0};
    for (int32_t r = 0; r < item.num_rows; ++r) {
      const auto row = static_cast<size_t>(item.first_row) + static_cast<size_t>(r);
      buffers_.positions[row] = item.position + r;
      buffers_.item_of[row] = static_cast<int32_t>(i);
    }
  }
  const std::span<const int64_t> positions(buffers_.positions.data(), rows);
  ops_.rope_table(
      {positions, window_frequencies_, buffers_.window_cosine.data(), buffers_.window_sine.data()});
  ops_.rope_table({positions, compressed_frequencies_, buffers_.compressed_cosine.data(),
                   buffers_.compressed_sine.data()});
  ops_.embed({reinterpret_cast<const Bf16*>(weights_.embed.weight.data), input.tokens, input.embeds,
              buffers_.is_image.data(), config_.hidden_size, config_.hc_mult,
              buffers_.streams.data()});
  const auto copies = static_cast<size_t>(config_.hc_mult);
  for (size_t i = 0; i < rows * copies; ++i) buffers_.pre[i] = i % copies == 0 ? 1.0f : 0.0f;
  trace_streams("embed", -1);
}

// Which rows reach this layer, leave a window row there, and pass through it.
void Forward::choose_rows(int32_t layer) {
  input_rows_.clear();
  window_rows_.clear();
  output_rows_.clear();
  for (size_t i = 0; i < items_.size(); ++i) {
    const ItemInput& item = items_[i];
    if (layer < item.layer_begin || layer >= item.layer_end) continue;
    const int64_t input = cone_.input_begin(layer, item.cone_end);
    const int64_t window = cone_.window_begin(layer, item.cone_end);
    const int64_t output = cone_.output_begin(layer, item.cone_end);
    for (int32_t r = 0; r < item.num_rows; ++r) {
      const int64_t position = item.position + r;
      const int32_t row = item.first_row + r;
      if (position >= input) input_rows_.push_back(row);
      if (position >= window) window_rows_.push_back(row);
      if (position >= output) output_rows_.push_back(row);
    }
    const int64_t first = kv_.window_first(item.slot, layer, item.position, window);
    item_views_[i].window_first = first;
    const int64_t first_output = std::max(item.position, output);
    CHECK(first_output >= item.position + item.num_rows ||
              first <= std::max<int64_t>(0, first_output - config_.sliding_window + 1),
          "layer {}: window rows before {} are missing for position {}", layer, first,
          first_output);
  }
}

void Forward::run_layer(int32_t layer) {
  weights_.engram_rows().poll();
  choose_rows(layer);
  if (input_rows_.empty()) return;
  inject_engram(layer);
  attention_half(layer);
  if (output_rows_.empty()) return;
  ffn_half(layer);
  trace_streams("X", layer);
}

// out = rms(bf16(sum_c pre[c] X[c]); norm)
void Forward::hidden_rows(RowIndex rows, const float* pre, const Bf16* norm_weight, Bf16* out) {
  ops_.collapse({buffers_.streams.data(), pre, rows, config_.hidden_size, config_.hc_mult, out});
  norm(norm_weight, static_cast<int64_t>(rows.size()), config_.hidden_size, out);
}

// Model.md section 3.3, steps 1 to 3.
void Forward::attention_half(int32_t layer) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  // Rows that leave the stack here still feed the KV store.
  if (w.compressor) {
    hidden_rows(input_rows_, buffers_.pre.data(), w.attn_norm, buffers_.source_hidden.data());
    publish(layer, input_rows_, buffers_.source_hidden.data());
  }
  if (!window_rows_.empty()) {
    hidden_rows(window_rows_, buffers_.pre.data(), w.attn_norm, buffers_.source_hidden.data());
    window_rows(layer, window_rows_, buffers_.source_hidden.data());
  }
  if (output_rows_.empty()) return;
  ops_.mixes({buffers_.streams.data(), output_rows_, w.hc_attn.fn, w.hc_attn.base, w.hc_attn.scale,
              config_.hidden_size, config_.hc_mult, config_.hc_sinkhorn_iters,
              static_cast<float>(config_.hc_eps), static_cast<float>(config_.rms_norm_eps),
              buffers_.attn_pre.data(), buffers_.post.data(), buffers_.comb.data()});
  trace_mixes("attn", layer, buffers_.attn_pre.data());
  hidden_rows(output_rows_, buffers_.pre.data(), w.attn_norm, buffers_.hidden.data());
  trace_rows("attn_in", layer, buffers_.hidden.data(), output_rows_, {config_.hidden_size});
  attention(layer, output_rows_);
  trace_rows("attn_out", layer, buffers_.out.data(), output_rows_, {config_.hidden_size});
  ops_.expand({buffers_.out.data(), buffers_.post.data(), buffers_.comb.data(), output_rows_,
               config_.hidden_size, config_.hc_mult, buffers_.streams.data()});
  trace_streams("X_mid", layer);
}

// Model.md section 3.3, steps 4 to 6.
void Forward::ffn_half(int32_t layer) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  ops_.mixes({buffers_.streams.data(), output_rows_, w.hc_ffn.fn, w.hc_ffn.base, w.hc_ffn.scale,
              config_.hidden_size, config_.hc_mult, config_.hc_sinkhorn_iters,
              static_cast<float>(config_.hc_eps), static_cast<float>(config_.rms_norm_eps),
              buffers_.pre.data(), buffers_.post.data(), buffers_.comb.data()});
  trace_mixes("ffn", layer, buffers_.pre.data());
  hidden_rows(output_rows_, buffers_.attn_pre.data(), w.ffn_norm, buffers_.hidden.data());
  moe(layer, output_rows_);
  trace_rows("moe_out", layer, buffers_.out.data(), output_rows_, {config_.hidden_size});
  ops_.expand({buffers_.out.data(), buffers_.post.data(), buffers_.comb.data(), output_rows_,
               config_.hidden_size, config_.hc_mult, buffers_.streams.data()});
}

// Final collapse, norm and head for the rows that want logits (model.md section 3.2).
void Forward::finish(const StepInput& input) {
  std::vector<int32_t>& rows = output_rows_;
  rows.clear();
  for (size_t i = 0; i < input.items.size(); ++i) {
    const ItemInput& item = input.items[i];
    if (item.logits == LogitRows::kNone || item.num_rows == 0) continue;
    CHECK(item.layer_end == config_.num_hidden_layers);
    const int32_t count = item.logits == LogitRows::kLast ? 1 : item.num_rows;
    outcomes_[i].first_logit_row = static_cast<int32_t>(rows.size());
    outcomes_[i].num_logit_rows = count;
    for (int32_t r = item.num_rows - count; r < item.num_rows; ++r)
      rows.push_back(item.first_row + r);
  }
  if (rows.empty()) return;
  CHECK(rows.size() <= static_cast<size_t>(limits_.logit_rows_max));
  hidden_rows(rows, buffers_.pre.data(), weights_.norm, buffers_.hidden.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    const ItemInput& item = items_[static_cast<size_t>(buffers_.item_of[row])];
    const uint64_t key =
        static_cast<uint64_t>(item.slot) << 32 | static_cast<uint64_t>(buffers_.positions[row]);
    if (fault_fires(FaultPoint::kNonFiniteRow, key)) {
      buffers_.hidden[i * static_cast<size_t>(config_.hidden_size)] =
          to_bf16(std::numeric_limits<float>::quiet_NaN());
    }
  }
  trace_rows("final", -1, buffers_.hidden.data(), rows, {config_.hidden_size});
  linear(weights_.head, buffers_.hidden.data(), static_cast<int64_t>(rows.size()),
         buffers_.logits.data());
  trace_floats("logits", -1, buffers_.logits.data(),
               {static_cast<int64_t>(rows.size()), config_.vocab_size});
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> row = logits(static_cast<int32_t>(i));
    // A sum is not finite if one term is not (0 * x: NaN for an infinity or a NaN).
    float probe = 0;
    for (const float logit : row) probe += 0.0f * logit;
    if (probe == 0.0f) continue;
    const int32_t item = buffers_.item_of[static_cast<size_t>(rows[i])];
    fail_item(item, {ErrorCode::kInternal,
                     fmt::format("position {}: the logits are not finite",
                                 buffers_.positions[static_cast<size_t>(rows[i])])});
  }
}

void Forward::commit(const StepInput& input, std::span<const int32_t> num_accepted) noexcept {
  for (size_t i = 0; i < input.items.size(); ++i) commit_rows(input.items[i], num_accepted[i]);
}

void Forward::commit_rows(const ItemInput& rows, int32_t num_accepted) noexcept {
  kv_.commit(rows, cone_, num_accepted,
             std::span(buffers_.compressed_ids)
                 .subspan(static_cast<size_t>(rows.first_row), static_cast<size_t>(rows.num_rows)),
             engram_hash_.history_len());
}

std::vector<int32_t> Forward::history_of(std::span<const TokenId> tokens) const {
  std::vector<int32_t> history;
  const size_t len = std::min(tokens.size(), static_cast<size_t>(engram_hash_.history_len()));
  for (const TokenId token : tokens.last(len)) {
    history.push_back(engram_hash_.compressed(token, token == config_.image_token_id));
  }
  return history;
}

void Forward::fail_item(int32_t item, const Error& error) {
  Result<void>& status = outcomes_[static_cast<size_t>(item)].status;
  if (status) status = tl::unexpected<Error>(error);
}

void Forward::linear(const Linear& linear, const Bf16* x, int64_t rows, Bf16* out) {
  ops_.linear({linear.weight, linear.activation, x, linear.weight.cols, rows, out, nullptr,
               linear.weight.rows});
}

void Forward::linear(const Linear& linear, const Bf16* x, int64_t rows, float* out) {
  ops_.linear({linear.weight, linear.activation, x, linear.weight.cols, rows, nullptr, out,
               linear.weight.rows});
}

void Forward::norm(const Bf16* weight, int64_t rows, int64_t width, Bf16* x) {
  ops_.rms_norm({x, weight, rows, width, static_cast<float>(config_.rms_norm_eps), x});
}

void Forward::rope(Bf16* x, RowIndex rows, int64_t heads, int64_t width, bool compressed,
                   bool inverse) {
  ops_.rope({x, static_cast<int64_t>(rows.size()), heads, width, config_.qk_rope_head_dim,
             (compressed ? buffers_.compressed_cosine : buffers_.window_cosine).data(),
             (compressed ? buffers_.compressed_sine : buffers_.window_sine).data(), rows, inverse});
}

}  // namespace yeoul
