#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sums.h"
#include "base/check.h"

namespace yeoul::cpu {

template <typename Acc>
void CpuOps<Acc>::load_operands(const Weight& weight, ActivationRule rule, const Bf16* x,
                                int64_t stride, const int32_t* rows, int64_t num_rows) {
  const int64_t len = operand_len(weight.cols);
  DCHECK(static_cast<size_t>(num_rows * len) <= operands_.size());
  for_each(num_rows, 2 * weight.cols, [&](int64_t r, Scratch&) {
    const Bf16* row = x + (rows == nullptr ? r : rows[r]) * stride;
    plain_[static_cast<size_t>(r)] = kernels_.load_operand(
        {reinterpret_cast<const uint16_t*>(row), weight.cols, rule == ActivationRule::kFp8,
         weight.format == WeightFormat::kFp4, operands_.data() + r * len});
  });
}

// The kernels take runs of plain rows; what they cannot do, rows that are not plain or a tile they
// refuse, goes by the book.
template <>
void CpuOps<float>::sum_outputs(const Weight& weight, int64_t first, int64_t num_rows,
                                Scratch& scratch, float* y) {
  const int64_t len = operand_len(weight.cols);
  for (int64_t begin = 0; begin < num_rows;) {
    const uint8_t plain = plain_[static_cast<size_t>(begin)];
    int64_t end = begin + 1;
    while (end < num_rows && plain_[static_cast<size_t>(end)] == plain) ++end;
    const LinearTile tile{.weight = weight,
                          .first = first,
                          .outputs = std::min(kOutputTile, weight.rows - first),
                          .x = operands_.data() + begin * len,
                          .x_stride = len,
                          .rows = end - begin,
                          .y = y + begin * kOutputTile,
                          .expanded = scratch.expanded.data(),
                          .segments = scratch.segments.data()};
    if (plain == 0 || !kernels_.linear(tile)) sum_tile(tile, tile.y);
    begin = end;
  }
}

template <>
void CpuOps<double>::sum_outputs(const Weight& weight, int64_t first, int64_t num_rows,
                                 Scratch& scratch, double* y) {
  const LinearTile tile{.weight = weight,
                        .first = first,
                        .outputs = std::min(kOutputTile, weight.rows - first),
                        .x = operands_.data(),
                        .x_stride = operand_len(weight.cols),
                        .rows = num_rows,
                        .expanded = scratch.expanded.data()};
  sum_tile(tile, y);
}

template <typename Acc>
void CpuOps<Acc>::linear(const LinearArgs& args) {
  const int64_t outputs = args.weight.rows;
  for (int64_t first = 0; first < args.num_rows; first += kRowBlock) {
    const int64_t num_rows = std::min(kRowBlock, args.num_rows - first);
    load_operands(args.weight, args.activation, args.x + first * args.x_stride, args.x_stride,
                  nullptr, num_rows);
    for_tiles(outputs, num_rows * args.weight.cols, [&](int64_t begin, Scratch& scratch) {
      const int64_t count = std::min(kOutputTile, outputs - begin);
      Acc* sums = scratch.sums_of_tile.data();
      sum_outputs(args.weight, begin, num_rows, scratch, sums);
      for (int64_t r = 0; r < num_rows; ++r) {
        const int64_t at = (first + r) * args.out_stride + begin;
        for (int64_t o = 0; o < count; ++o) {
          const float y = static_cast<float>(sums[r * kOutputTile + o]);
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

template void CpuOps<float>::load_operands(const Weight&, ActivationRule, const Bf16*, int64_t,
                                           const int32_t*, int64_t);
template void CpuOps<double>::load_operands(const Weight&, ActivationRule, const Bf16*, int64_t,
                                            const int32_t*, int64_t);
template void CpuOps<float>::linear(const LinearArgs&);
template void CpuOps<double>::linear(const LinearArgs&);

}  // namespace yeoul::cpu
