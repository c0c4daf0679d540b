// Router, experts and their sum (model.md section 3.7).

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/instruction_sets.h"
#include "backend/math_functions.h"
#include "base/check.h"

namespace yeoul::cpu {

namespace {

YEOUL_CLONES void add_row(const Bf16* x, int64_t n, float* sums) {
  for (int64_t i = 0; i < n; ++i) sums[i] += to_float(x[i]);
}
YEOUL_CLONES void finish_row(const float* sums, const Bf16* shared, int64_t n, Bf16* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_bf16(sums[i] + to_float(shared[i]));
}

// sqrt(softplus) of the logits, best experts first, their weights.
void choose(const RouteArgs& args, int64_t i, const float* logits, float* score, float* biased) {
  const int64_t experts = args.gate.rows;
  const bool image = args.is_image[args.rows[static_cast<size_t>(i)]] != 0;
  const float* bias = image ? args.image_bias : args.bias;
  for (int64_t e = 0; e < experts; ++e) {
    score[e] = std::sqrt(softplus(logits[e] / args.gate_temp));
    biased[e] = score[e] + bias[e];
    if (biased[e] != biased[e]) biased[e] = -std::numeric_limits<float>::infinity();
  }
  double total = 0;
  int32_t* chosen = args.experts + i * args.num_chosen;
  for (int32_t j = 0; j < args.num_chosen; ++j) {
    int32_t best = -1;
    for (int32_t e = 0; e < experts; ++e) {
      const bool taken = std::find(chosen, chosen + j, e) != chosen + j;
      if (!taken && (best < 0 || biased[e] > biased[best])) best = e;
    }
    chosen[j] = best;
    total += static_cast<double>(score[best]);
  }
  for (int32_t j = 0; j < args.num_chosen; ++j) {
    double weight = static_cast<double>(score[chosen[j]]);
    if (args.normalize && args.num_chosen > 1) weight /= total + 1e-20;
    args.weights[i * args.num_chosen + j] =
        static_cast<float>(weight * static_cast<double>(args.scaling));
  }
  if (args.scores_out != nullptr) std::copy_n(score, experts, args.scores_out + i * experts);
}

}  // namespace

template <typename Acc>
void CpuOps<Acc>::route(const RouteArgs& args) {
  const int64_t experts = args.gate.rows, inputs = args.gate.cols;
  CHECK(experts <= limits_.experts && 2 * experts <= static_cast<int64_t>(scratch_[0].row.size()));
  for (int64_t first = 0; first < args.num_rows; first += kRowBlock) {
    const int64_t num_rows = std::min(kRowBlock, args.num_rows - first);
    linear({args.gate, ActivationRule::kAsIs, args.x + first * inputs, inputs, num_rows, nullptr,
            gate_logits_.data(), experts});
    for_each(num_rows, 256 * experts, [&](int64_t r, Scratch& scratch) {
      float* score = scratch.row.data();
      choose(args, first + r, gate_logits_.data() + r * experts, score, score + experts);
    });
  }
}

// bf16(weight * silu(min(gate, limit)) * clamp(up)) of one row's outputs of a tile.
template <>
void CpuOps<float>::gate_up(const float* gate, const float* up, int64_t n, float limit,
                            const float* weight, uint16_t* out) {
  kernels_.gate_up(gate, up, n, limit, weight != nullptr, weight != nullptr ? *weight : 1.0f, out);
}
template <>
void CpuOps<double>::gate_up(const double* gate, const double* up, int64_t n, float limit,
                             const float* weight, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float g = std::min(round_bf16(static_cast<float>(gate[i])), limit);
    const float u = std::clamp(round_bf16(static_cast<float>(up[i])), -limit, limit);
    float a = silu(g) * u;
    if (weight != nullptr) a = *weight * a;
    out[i] = to_bf16(a).bits;
  }
}

template <typename Acc>
void CpuOps<Acc>::expert(const ExpertArgs& args) {
  const int64_t hidden = args.expert.w1.cols, width = args.expert.w1.rows;
  const auto total = static_cast<int64_t>(args.rows.size());
  for (int64_t first = 0; first < total; first += kRowBlock) {
    const int64_t num_rows = std::min(kRowBlock, total - first);
    load_operands(args.expert.w1, ActivationRule::kFp8, args.x, hidden, args.rows.data() + first,
                  num_rows);
    for_tiles(width, 2 * num_rows * hidden, [&](int64_t begin, Scratch& scratch) {
      const int64_t count = std::min(kOutputTile, width - begin);
      Acc* gate = scratch.sums_of_tile.data();
      Acc* up = gate + kRowBlock * kOutputTile;
      sum_outputs(args.expert.w1, begin, num_rows, scratch, gate);
      sum_outputs(args.expert.w3, begin, num_rows, scratch, up);
      for (int64_t r = 0; r < num_rows; ++r) {
        const int32_t place = args.places[static_cast<size_t>(first + r)];
        gate_up(gate + r * kOutputTile, up + r * kOutputTile, count, args.limit,
                args.weights == nullptr ? nullptr : args.weights + place,
                activations_.data() + r * width + begin);
      }
    });
    load_operands(args.expert.w2, ActivationRule::kFp8,
                  reinterpret_cast<const Bf16*>(activations_.data()), width, nullptr, num_rows);
    for_tiles(hidden, num_rows * width, [&](int64_t begin, Scratch& scratch) {
      const int64_t count = std::min(kOutputTile, hidden - begin);
      Acc* sums = scratch.sums_of_tile.data();
      sum_outputs(args.expert.w2, begin, num_rows, scratch, sums);
      for (int64_t r = 0; r < num_rows; ++r) {
        Bf16* out = args.out + args.places[static_cast<size_t>(first + r)] * hidden + begin;
        for (int64_t o = 0; o < count; ++o) {
          out[o] = to_bf16(static_cast<float>(sums[r * kOutputTile + o]));
        }
      }
    });
  }
}

template <typename Acc>
void CpuOps<Acc>::combine(const CombineArgs& args) {
  const int64_t hidden = args.hidden;
  const int32_t chosen = args.num_chosen;
  for_each(args.num_rows, hidden * chosen, [&](int64_t i, Scratch& scratch) {
    // Places of the row's experts in ascending expert id.
    int32_t* order = scratch.order.data();
    const int32_t* experts = args.experts + i * chosen;
    for (int32_t j = 0; j < chosen; ++j) order[j] = j;
    std::sort(order, order + chosen, [&](int32_t a, int32_t b) { return experts[a] < experts[b]; });
    float* sums = args.routed_out == nullptr ? scratch.row.data() : args.routed_out + i * hidden;
    std::fill_n(sums, hidden, 0.0f);
    for (int32_t j = 0; j < chosen; ++j) {
      add_row(args.expert_out + (i * chosen + order[j]) * hidden, hidden, sums);
    }
    finish_row(sums, args.shared + i * hidden, hidden, args.out + i * hidden);
  });
}

template void CpuOps<float>::route(const RouteArgs&);
template void CpuOps<double>::route(const RouteArgs&);
template void CpuOps<float>::expert(const ExpertArgs&);
template void CpuOps<double>::expert(const ExpertArgs&);
template void CpuOps<float>::combine(const CombineArgs&);
template void CpuOps<double>::combine(const CombineArgs&);

}  // namespace yeoul::cpu
