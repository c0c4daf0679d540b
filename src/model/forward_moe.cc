// Mixture of experts of one layer (model.md section 3.7).

#include <algorithm>

#include "model/forward.h"

namespace yeoul {

// hidden -> out, [n, H] both.
void Forward::moe(int32_t layer, RowIndex rows) {
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(rows.size());
  const int32_t chosen = config_.num_experts_per_tok;
  std::vector<float> scores, routed;
  if (trace_ != nullptr) {
    scores.resize(static_cast<size_t>(n * config_.n_routed_experts));
    routed.resize(static_cast<size_t>(n * config_.hidden_size));
  }
  ops_.route({w.gate.weight, w.gate_bias, w.gate_bias_vl, config_.gate_temp, buffers_.hidden.data(),
              n, rows, buffers_.is_image.data(), chosen, config_.norm_topk_prob,
              config_.routed_scaling_factor, buffers_.experts.data(),
              buffers_.expert_weights.data(), scores.empty() ? nullptr : scores.data()});
  run_experts(layer, rows);
  const RowIndex all(buffers_.identity.data(), static_cast<size_t>(n));
  ops_.expert({w.shared, buffers_.hidden.data(), all, all, nullptr, config_.swiglu_limit,
               buffers_.shared.data()});
  ops_.combine({buffers_.expert_out.data(), buffers_.experts.data(), buffers_.shared.data(), n,
                config_.hidden_size, chosen, buffers_.out.data(),
                routed.empty() ? nullptr : routed.data()});
  if (trace_ != nullptr) {
    const std::vector<float> experts(buffers_.experts.begin(),
                                     buffers_.experts.begin() + n * chosen);
    trace_floats("router_scores", layer, scores.data(), {n, config_.n_routed_experts});
    trace_floats("experts", layer, experts.data(), {n, chosen});
    trace_floats("expert_weights", layer, buffers_.expert_weights.data(), {n, chosen});
    trace_floats("routed", layer, routed.data(), {n, config_.hidden_size});
  }
}

// Rows grouped by expert, experts in ascending order; each (row, expert) output has its own place,
// so the order of work decides no bit. An expert that cannot be read fails the items that chose it.
void Forward::run_experts(int32_t layer, RowIndex rows) {
  const auto places = static_cast<int32_t>(rows.size()) * config_.num_experts_per_tok;
  std::vector<int32_t>& by_expert = buffers_.expert_places;
  for (int32_t p = 0; p < places; ++p) by_expert[static_cast<size_t>(p)] = p;
  const auto expert_of = [&](int32_t place) {
    return buffers_.experts[static_cast<size_t>(place)];
  };
  std::sort(by_expert.begin(), by_expert.begin() + places, [&](int32_t a, int32_t b) {
    return expert_of(a) < expert_of(b) || (expert_of(a) == expert_of(b) && a < b);
  });
  for (int32_t p = 0; p < places; ++p) {
    buffers_.expert_rows[static_cast<size_t>(p)] =
        by_expert[static_cast<size_t>(p)] / config_.num_experts_per_tok;
  }
  for (int32_t first = 0; first < places;) {
    const int32_t expert = expert_of(by_expert[static_cast<size_t>(first)]);
    int32_t last = first + 1;
    while (last < places && expert_of(by_expert[static_cast<size_t>(last)]) == expert) ++last;
    const auto begin = static_cast<size_t>(first), count = static_cast<size_t>(last - first);
    first = last;
    const Result<const ExpertWeights*> weights = weights_.experts().fetch(layer, expert);
    if (!weights) {
      for (size_t p = begin; p < begin + count; ++p) {
        const int32_t row = rows[static_cast<size_t>(buffers_.expert_rows[p])];
        fail_item(buffers_.item_of[static_cast<size_t>(row)], weights.error());
        std::fill_n(buffers_.expert_out.data() + int64_t{by_expert[p]} * config_.hidden_size,
                    config_.hidden_size, Bf16{});
      }
      continue;
    }
    ops_.expert({**weights, buffers_.hidden.data(),
                 std::span<const int32_t>(buffers_.expert_rows).subspan(begin, count),
                 std::span<const int32_t>(by_expert).subspan(begin, count),
                 buffers_.expert_weights.data(), config_.swiglu_limit, buffers_.expert_out.data()});
  }
}

}  // namespace yeoul
