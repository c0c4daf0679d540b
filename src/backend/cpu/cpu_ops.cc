#include "backend/cpu/cpu_ops.h"

#include <algorithm>

#include "backend/cpu/sums.h"
#include "base/check.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul {
namespace cpu {
namespace {

struct Sizes {
  size_t operands, activations, gate_logits, mix_sums;
  size_t row, expanded, segments, sums_of_tile;
  size_t key_rows, attention, keys, query, sums, scores, block_max, order, query_codes,
      query_scales;
};

Sizes sizes_for(const OpsLimits& limits) {
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  const int64_t widest = padded(
      std::max({limits.linear_inputs_max, limits.expert_width, limits.hidden * limits.copies}));
  const int64_t inputs =
      operand_len(std::max({limits.linear_inputs_max, limits.expert_width, limits.hidden}));
  const int64_t head = padded(limits.head_dim);
  Sizes s{};
  s.operands = size(kRowBlock * inputs);
  s.activations = size(kRowBlock * limits.expert_width);
  s.gate_logits = size(kRowBlock * limits.experts);
  s.mix_sums = size(kRowBlock * (2 * limits.copies + limits.copies * limits.copies + 1));
  s.row = size(2 * widest);
  s.expanded = size((kOutputTile + 1) * inputs);
  s.segments = size((inputs + kSegment - 1) / kSegment * kRowBlock * kOutputTile);
  s.sums_of_tile = size(2 * kRowBlock * kOutputTile);
  s.key_rows = size(limits.window + limits.top_k);
  s.attention = size(attention_workspace(limits.heads, limits.head_dim));
  s.keys = size((limits.window + limits.top_k) * head);
  s.query = size(head);
  s.sums = size(2 * head);
  s.scores = size(limits.index_rows_max);
  s.block_max = size(limits.index_rows_max / std::max(limits.block_size, 1) + 1);
  s.order = size(std::max<int64_t>(limits.index_rows_max + 1, 64));
  s.query_codes = size(int64_t{limits.index_heads} * limits.index_head_dim);
  s.query_scales = size(int64_t{limits.index_heads} * (limits.index_head_dim / 32 + 1));
  return s;
}

}  // namespace

template <typename Acc>
CpuOps<Acc>::CpuOps(ThreadPool& pool, const OpsLimits& limits, const Kernels& kernels)
    : pool_(pool),
      limits_(limits),
      scratch_(static_cast<size_t>(pool.num_threads())),
      kernels_(kernels),
      plain_(static_cast<size_t>(kRowBlock)) {
  CHECK(limits.head_dim % 32 == 0 && limits.head_dim <= kHeadDimMax);
  CHECK(limits.copies <= kCopiesMax);
  const Sizes s = sizes_for(limits);
  operands_.resize(s.operands);
  activations_.resize(s.activations);
  gate_logits_.resize(s.gate_logits);
  mix_sums_.resize(s.mix_sums);
  for (Scratch& scratch : scratch_) {
    scratch.row.resize(s.row);
    scratch.expanded.resize(s.expanded);
    scratch.segments.resize(s.segments);
    scratch.sums_of_tile.resize(s.sums_of_tile);
    scratch.key_rows.resize(s.key_rows);
    scratch.attention.resize(s.attention);
    scratch.keys.resize(s.keys);
    scratch.query.resize(s.query);
    scratch.sums.resize(s.sums);
    scratch.scores.resize(s.scores);
    scratch.block_max.resize(s.block_max);
    scratch.order.resize(s.order);
    scratch.query_codes.resize(s.query_codes);
    scratch.query_scales.resize(s.query_scales);
  }
}

template <>
const char* CpuOps<float>::numerics_id() const {
  return "v41-f32-2";
}
template <>
const char* CpuOps<double>::numerics_id() const {
  return "v41-f64-2";
}

template class CpuOps<float>;
template class CpuOps<double>;

}  // namespace cpu

std::unique_ptr<Ops> make_cpu_ops(Accumulate accumulate, ThreadPool& pool, const OpsLimits& limits,
                                  Isa isa) {
  if (accumulate == Accumulate::kDouble) {
    return std::make_unique<cpu::CpuOps<double>>(pool, limits, cpu::kernels_for(Isa::kScalar));
  }
  return std::make_unique<cpu::CpuOps<float>>(pool, limits, cpu::kernels_for(isa));
}

int64_t cpu_ops_bytes(const OpsLimits& limits, int num_threads) {
  const cpu::Sizes s = cpu::sizes_for(limits);
  const size_t floats = s.row + s.expanded + s.segments + s.attention + s.keys + s.query +
                        s.scores + s.block_max + s.order + s.query_scales;
  const size_t per_thread =
      4 * floats + sizeof(cpu::KeyRow) * s.key_rows + 8 * (s.sums + s.sums_of_tile) + s.query_codes;
  return static_cast<int64_t>(2 * (s.operands + s.activations) + 4 * s.gate_logits +
                              cpu::kRowBlock + static_cast<size_t>(num_threads) * per_thread);
}

}  // namespace yeoul
