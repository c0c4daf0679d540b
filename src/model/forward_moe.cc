// Mixture of experts of one layer (model.md section 3.7).

#include <algorithm>
#include <optional>

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
  group_by_expert(rows);
  weights_.experts().begin(layer, buffers_.expert_ids);
  foresee_experts(layer + 1, rows);
  // The shared expert waits for no read.
  const RowIndex all(buffers_.identity.data(), static_cast<size_t>(n));
  ops_.expert({w.shared, buffers_.hidden.data(), all, all, nullptr, config_.swiglu_limit,
               buffers_.shared.data()});
  run_experts(rows);
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

// What the next layer will probably choose: its router on this layer's input, which differs from
// its own by one attention and one sum of experts. Only decides what is read while nothing else is.
void Forward::foresee_experts(int32_t layer, RowIndex rows) {
  // One row's choice is the least that a guess can be.
  const auto guess_min = static_cast<size_t>(config_.num_experts_per_tok);
  if (layer >= config_.num_hidden_layers || !weights_.experts().takes_guess_of(guess_min)) return;
  const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
  const auto n = static_cast<int64_t>(rows.size());
  const auto choices = static_cast<size_t>(n * config_.num_experts_per_tok);
  ops_.route({w.gate.weight, w.gate_bias, w.gate_bias_vl, config_.gate_temp, buffers_.hidden.data(),
              n, rows, buffers_.is_image.data(), config_.num_experts_per_tok,
              config_.norm_topk_prob, config_.routed_scaling_factor, buffers_.foreseen.data(),
              buffers_.foreseen_weights.data(), nullptr});
  const auto begin = buffers_.foreseen.begin();
  const auto end = begin + static_cast<std::ptrdiff_t>(choices);
  std::sort(begin, end);
  const auto distinct = static_cast<size_t>(std::unique(begin, end) - begin);
  weights_.experts().foresee(layer, {buffers_.foreseen.data(), distinct});
}

// Places of (row, choice) sorted by expert; expert_ids and expert_begins: the groups, ascending.
void Forward::group_by_expert(RowIndex rows) {
  const auto places = static_cast<int32_t>(rows.size()) * config_.num_experts_per_tok;
  std::vector<int32_t>& by_expert = buffers_.expert_places;
  for (int32_t p = 0; p < places; ++p) by_expert[static_cast<size_t>(p)] = p;
  const auto expert_of = [&](int32_t place) {
    return buffers_.experts[static_cast<size_t>(place)];
  };
  std::sort(by_expert.begin(), by_expert.begin() + places, [&](int32_t a, int32_t b) {
    return expert_of(a) < expert_of(b) || (expert_of(a) == expert_of(b) && a < b);
  });
  buffers_.expert_ids.clear();
  buffers_.expert_begins.clear();
  for (int32_t p = 0; p < places; ++p) {
    const int32_t place = by_expert[static_cast<size_t>(p)];
    buffers_.expert_rows[static_cast<size_t>(p)] = place / config_.num_experts_per_tok;
    if (!buffers_.expert_ids.empty() && buffers_.expert_ids.back() == expert_of(place)) continue;
    buffers_.expert_ids.push_back(expert_of(place));
    buffers_.expert_begins.push_back(p);
  }
  buffers_.expert_begins.push_back(places);
}

// Experts in the order in which they are there; each (row, expert) output has its own place, so the
// order of work decides no bit. An expert that cannot be read fails the items that chose it.
void Forward::run_experts(RowIndex rows) {
  while (const std::optional<ExpertStore::Ready> ready = weights_.experts().next()) {
    const auto begin = static_cast<size_t>(buffers_.expert_begins[ready->place]);
    const auto end = static_cast<size_t>(buffers_.expert_begins[ready->place + 1]);
    const std::span<const int32_t> places(buffers_.expert_places.data() + begin, end - begin);
    if (ready->weights) {
      ops_.expert({*ready->weights, buffers_.hidden.data(),
                   std::span<const int32_t>(buffers_.expert_rows).subspan(begin, end - begin),
                   places, buffers_.expert_weights.data(), config_.swiglu_limit,
                   buffers_.expert_out.data()});
      continue;
    }
    for (const int32_t place : places) {
      const int32_t row = rows[static_cast<size_t>(place / config_.num_experts_per_tok)];
      fail_item(buffers_.item_of[static_cast<size_t>(row)], ready->weights.error());
      std::fill_n(buffers_.expert_out.data() + int64_t{place} * config_.hidden_size,
                  config_.hidden_size, Bf16{});
    }
  }
}

}  // namespace yeoul
