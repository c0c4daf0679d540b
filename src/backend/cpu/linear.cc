#include <algorithm>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sums.h"
#include "base/check.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {

template <typename Acc>
void CpuOps<Acc>::load_operands(const Bf16* x, int64_t stride, const int32_t* rows,
                                int64_t num_rows, int64_t width, ActivationRule rule) {
  const int64_t operand_stride = padded(width);
  for_each(num_rows, width, [&](int64_t r, Scratch& scratch) {
    const Bf16* row = x + (rows == nullptr ? r : rows[r]) * stride;
    float* operand = operands_.data() + r * operand_stride;
    if (rule == ActivationRule::kAsIs) {
      to_lane_order(row, width, operand);
      return;
    }
    float* natural = scratch.row.data();
    for (int64_t i = 0; i < width; ++i) natural[i] = to_float(row[i]);
    quantize_fp8({natural, static_cast<size_t>(width)});
    to_lane_order(natural, width, operand);
  });
}

template <typename Acc>
void CpuOps<Acc>::linear(const LinearArgs& args) {
  const int64_t inputs = args.weight.cols, outputs = args.weight.rows, k = padded(inputs);
  DCHECK(inputs <= limits_.linear_inputs_max);
  for (int64_t first = 0; first < args.num_rows; first += kRowBlock) {
    const int64_t num_rows = std::min(kRowBlock, args.num_rows - first);
    load_operands(args.x + first * args.x_stride, args.x_stride, nullptr, num_rows, inputs,
                  args.activation);
    const int64_t tiles = (outputs + kOutputTile - 1) / kOutputTile;
    for_each(tiles, num_rows * inputs * kOutputTile, [&](int64_t tile, Scratch& scratch) {
      const int64_t begin = tile * kOutputTile, count = std::min(kOutputTile, outputs - begin);
      for (int64_t o = 0; o < count; ++o) {
        expand_row(args.weight, begin + o, scratch.tile.data() + o * k);
      }
      Acc sums[kOutputTile];
      for (int64_t r = 0; r < num_rows; ++r) {
        dots(operands_.data() + r * k, scratch.tile.data(), k, k, count, sums);
        const int64_t at = (first + r) * args.out_stride + begin;
        for (int64_t o = 0; o < count; ++o) {
          const float y = static_cast<float>(sums[o]);
          if (args.out_float != nullptr) {
            args.out_float[at + o] = y;
          } else {
            args.out_bf16[at + o] = to_bf16(y);
          }
        }
      }
    });
  }
}

template void CpuOps<float>::load_operands(const Bf16*, int64_t, const int32_t*, int64_t, int64_t,
                                           ActivationRule);
template void CpuOps<double>::load_operands(const Bf16*, int64_t, const int32_t*, int64_t, int64_t,
                                            ActivationRule);
template void CpuOps<float>::linear(const LinearArgs&);
template void CpuOps<double>::linear(const LinearArgs&);

}  // namespace yeoul::cpu
