// Router, experts and their sum (model.md section 3.7).

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sums.h"
#include "backend/math_functions.h"
#include "base/check.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {

template <typename Acc>
void CpuOps<Acc>::route(const RouteArgs& args) {
  const int64_t experts = args.gate.rows, inputs = args.gate.cols, k = padded(inputs);
  CHECK(2 * experts <= static_cast<int64_t>(scratch_[0].row.size()));
  for (int64_t first = 0; first < args.num_rows; first += kRowBlock) {
    const int64_t num_rows = std::min(kRowBlock, args.num_rows - first);
    load_operands(args.x + first * inputs, inputs, nullptr, num_rows, inputs,
                  ActivationRule::kAsIs);
    for_each(num_rows, inputs * experts, [&](int64_t r, Scratch& scratch) {
      const int64_t i = first + r;
      float* score = scratch.row.data();
      float* biased = score + experts;
      const bool image = args.is_image[args.rows[static_cast<size_t>(i)]] != 0;
      const float* bias = image ? args.image_bias : args.bias;
      for (int64_t e = 0; e < experts; ++e) {
        Acc sum = 0;
        expand_row(args.gate, e, scratch.tile.data());
        dots(operands_.data() + r * k, scratch.tile.data(), k, k, 1, &sum);
        score[e] = std::sqrt(softplus(static_cast<float>(sum) / args.gate_temp));
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
    });
  }
}

template <typename Acc>
void CpuOps<Acc>::expert(const ExpertArgs& args) {
  const int64_t hidden = args.expert.w1.cols, width = args.expert.w1.rows;
  const int64_t k1 = padded(hidden), k2 = padded(width);
  const auto total = static_cast<int64_t>(args.rows.size());
  for (int64_t first = 0; first < total; first += kRowBlock) {
    const int64_t num_rows = std::min(kRowBlock, total - first);
    load_operands(args.x, hidden, args.rows.data() + first, num_rows, hidden, ActivationRule::kFp8);
    const int64_t up_tiles = (width + kOutputTile - 1) / kOutputTile;
    for_each(up_tiles, 2 * num_rows * hidden * kOutputTile, [&](int64_t tile, Scratch& scratch) {
      const int64_t begin = tile * kOutputTile, count = std::min(kOutputTile, width - begin);
      float* gate_rows = scratch.tile.data();
      float* up_rows = gate_rows + kOutputTile * k1;
      for (int64_t o = 0; o < count; ++o) {
        expand_row(args.expert.w1, begin + o, gate_rows + o * k1);
        expand_row(args.expert.w3, begin + o, up_rows + o * k1);
      }
      Acc gate[kOutputTile], up[kOutputTile];
      for (int64_t r = 0; r < num_rows; ++r) {
        const float* x = operands_.data() + r * k1;
        dots(x, gate_rows, k1, k1, count, gate);
        dots(x, up_rows, k1, k1, count, up);
        const size_t row = static_cast<size_t>(first + r);
        for (int64_t o = 0; o < count; ++o) {
          const float g = std::min(round_bf16(static_cast<float>(gate[o])), args.limit);
          const float v =
              std::clamp(round_bf16(static_cast<float>(up[o])), -args.limit, args.limit);
          float a = silu(g) * v;
          if (args.weights != nullptr) a = args.weights[args.places[row]] * a;
          activations_[static_cast<size_t>(r * width + begin + o)] = round_bf16(a);
        }
      }
    });
    for_each(num_rows, 8 * width, [&](int64_t r, Scratch&) {
      float* a = activations_.data() + r * width;
      quantize_fp8({a, static_cast<size_t>(width)});
      to_lane_order(a, width, operands_.data() + r * k2);
    });
    const int64_t down_tiles = (hidden + kOutputTile - 1) / kOutputTile;
    for_each(down_tiles, num_rows * width * kOutputTile, [&](int64_t tile, Scratch& scratch) {
      const int64_t begin = tile * kOutputTile, count = std::min(kOutputTile, hidden - begin);
      for (int64_t o = 0; o < count; ++o) {
        expand_row(args.expert.w2, begin + o, scratch.tile.data() + o * k2);
      }
      Acc sums[kOutputTile];
      for (int64_t r = 0; r < num_rows; ++r) {
        dots(operands_.data() + r * k2, scratch.tile.data(), k2, k2, count, sums);
        Bf16* out = args.out + args.places[static_cast<size_t>(first + r)] * hidden + begin;
        for (int64_t o = 0; o < count; ++o) out[o] = to_bf16(static_cast<float>(sums[o]));
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
    for (int64_t d = 0; d < hidden; ++d) {
      float sum = 0;
      for (int32_t j = 0; j < chosen; ++j) {
        sum += to_float(args.expert_out[(i * chosen + order[j]) * hidden + d]);
      }
      if (args.routed_out != nullptr) args.routed_out[i * hidden + d] = sum;
      args.out[i * hidden + d] = to_bf16(sum + to_float(args.shared[i * hidden + d]));
    }
  });
}

template void CpuOps<float>::route(const RouteArgs&);
template void CpuOps<double>::route(const RouteArgs&);
template void CpuOps<float>::expert(const ExpertArgs&);
template void CpuOps<double>::expert(const ExpertArgs&);
template void CpuOps<float>::combine(const CombineArgs&);
template void CpuOps<double>::combine(const CombineArgs&);

}  // namespace yeoul::cpu
