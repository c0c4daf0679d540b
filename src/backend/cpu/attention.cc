// Window and selected compressed rows under one softmax with a sink (model.md section 3.4 steps 6,
// 7).

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/instruction_sets.h"
#include "backend/cpu/sums.h"
#include "backend/math_functions.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

inline float exp_of(float x, float) {
  return exp_float(x);
}
inline double exp_of(float x, double) {
  return exp_double(static_cast<double>(x));
}

// The keys one row attends to, in slot order: slot s of the window holds the (s+1)th oldest visible
// position, compressed rows follow from slot W on.
int64_t list_keys(const AttentionArgs& args, int64_t row, KeyRow* keys) {
  const KvView& view = args.kv_view;
  const ItemView& item = view.items[args.item_of[row]];
  const int64_t position = args.positions[row];
  const int32_t window = view.layout.window;
  const int64_t oldest = std::max({int64_t{0}, position - window + 1, item.window_first});
  int64_t count = 0;
  for (int64_t p = oldest; p <= position; ++p) {
    const uint8_t* codes = view.window_row(item, args.layer, p);
    keys[count] = {codes, codes + view.layout.head_dim, static_cast<int32_t>(count), true};
    ++count;
  }
  if (args.source == nullptr) return count;
  for (int32_t j = 0; j < args.num_selected[row]; ++j) {
    int64_t at = 0;
    const uint8_t* page =
        view.page_of(item, *args.source, args.selected[row * args.top_k + j], &at);
    keys[count++] = {page + args.source->codes_offset + at * view.layout.code_bytes(),
                     page + args.source->scales_offset + at * view.layout.scale_bytes(), window + j,
                     false};
  }
  return count;
}

// Decoded keys in lane order.
struct Keys {
  const KeyRow* rows;
  const float* values;  // [count][stride]
  int64_t stride;
  int32_t count;
};

Keys decode_keys(const AttentionHeads& heads, float* natural, float* out) {
  const int64_t width = heads.width, stride = padded(width);
  const std::span<float> decoded(natural, static_cast<size_t>(width));
  for (int64_t j = 0; j < heads.num_keys; ++j) {
    const KeyRow& key = heads.keys[j];
    if (key.fp8) {
      decode_fp8_row(key.codes, key.scales, decoded);
    } else {
      decode_compressed_row(key.codes, key.scales, decoded);
    }
    to_lane_order(natural, width, out + j * stride);
  }
  return {heads.keys, out, stride, static_cast<int32_t>(heads.num_keys)};
}

// values[d] = fma(values[d], rescale, added[d]).
template <typename Acc>
[[gnu::always_inline]] inline void rescale_loop(Acc rescale, const Acc* added, int64_t n,
                                                Acc* values) {
  for (int64_t d = 0; d < n; ++d) values[d] = std::fma(values[d], rescale, added[d]);
}
YEOUL_CLONES void rescale_values(float rescale, const float* added, int64_t n, float* values) {
  rescale_loop(rescale, added, n, values);
}
YEOUL_CLONES void rescale_values(double rescale, const double* added, int64_t n, double* values) {
  rescale_loop(rescale, added, n, values);
}

// A smaller weight counts as zero in the sum of values (not in the denominator), so that no product
// with a key comes near the denormal numbers.
constexpr float kWeightMin = 0x1p-64f;

// Running state of one head's online softmax.
template <typename Acc>
struct HeadSum {
  float largest = -1e30f;
  Acc denominator = 0;
  Acc* values;     // [stride]
  Acc* block_sum;  // [stride]
};

// Keys first .. last-1 share one slot block.
template <typename Acc>
void add_block(const float* query, const Keys& keys, int32_t first, int32_t last, float scale,
               HeadSum<Acc>& head) {
  Acc dot[kSlotBlock];
  float p[kSlotBlock] = {};
  const float* by_slot[kSlotBlock] = {};
  const int32_t count = last - first;
  dots(query, keys.values + first * keys.stride, keys.stride, keys.stride, count, dot);
  float largest = head.largest;
  for (int32_t j = 0; j < count; ++j) {
    p[j] = static_cast<float>(dot[j]) * scale;
    largest = p[j] > largest ? p[j] : largest;
  }
  const Acc rescale = exp_of(head.largest - largest, Acc{});
  Acc sum = 0;
  float weights[kSlotBlock] = {};
  for (int32_t j = 0; j < count; ++j) {
    const Acc e = exp_of(p[j] - largest, Acc{});
    sum += e;
    const int32_t slot = keys.rows[first + j].slot % kSlotBlock;
    weights[slot] = e < kWeightMin ? 0.0f : round_bf16(static_cast<float>(e));
    by_slot[slot] = keys.values + (first + j) * keys.stride;
  }
  std::fill_n(head.block_sum, keys.stride, Acc{0});
  add_values(weights, by_slot, kSlotBlock, keys.stride, head.block_sum);
  head.denominator = std::fma(head.denominator, rescale, sum);
  rescale_values(rescale, head.block_sum, keys.stride, head.values);
  head.largest = largest;
}

}  // namespace

template <typename Acc>
void CpuOps<Acc>::attend_by_the_book(const AttentionHeads& heads, Scratch& scratch) {
  const int64_t width = heads.width;
  const Keys keys = decode_keys(heads, scratch.row.data(), scratch.keys.data());
  Acc* buffers = reinterpret_cast<Acc*>(scratch.sums.data());
  for (int64_t h = 0; h < heads.heads; ++h) {
    to_lane_order(reinterpret_cast<const Bf16*>(heads.queries) + h * width, width,
                  scratch.query.data());
    HeadSum<Acc> head{.values = buffers, .block_sum = buffers + keys.stride};
    std::fill_n(head.values, keys.stride, Acc{0});
    for (int32_t first = 0; first < keys.count;) {
      const int32_t block = keys.rows[first].slot / kSlotBlock;
      int32_t last = first + 1;
      while (last < keys.count && keys.rows[last].slot / kSlotBlock == block) ++last;
      add_block(scratch.query.data(), keys, first, last, heads.scale, head);
      first = last;
    }
    head.denominator += exp_of(heads.sink[h] - head.largest, Acc{});
    float lanes[kHeadDimMax];
    float natural[kHeadDimMax];
    for (int64_t d = 0; d < keys.stride; ++d) {
      lanes[d] = static_cast<float>(head.values[d] / head.denominator);
    }
    from_lane_order(lanes, width, natural);
    for (int64_t d = 0; d < width; ++d) heads.out[h * width + d] = to_bf16(natural[d]).bits;
  }
}

template <typename Acc>
void CpuOps<Acc>::attend_heads(const AttentionArgs& args, int64_t i, int32_t head_begin,
                               int32_t head_end, Scratch& scratch) {
  const int64_t row = args.rows[static_cast<size_t>(i)];
  const int64_t width = args.kv_view.layout.head_dim;
  const int64_t at = (i * args.heads + head_begin) * width;
  KeyRow* keys = scratch.key_rows.data();
  const AttentionHeads heads{
      .queries = reinterpret_cast<const uint16_t*>(args.queries + at),
      .heads = head_end - head_begin,
      .width = width,
      .keys = keys,
      .num_keys = list_keys(args, row, keys),
      .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width))),
      .sink = args.sink + head_begin,
      .out = reinterpret_cast<uint16_t*>(args.out + at),
      .workspace = scratch.attention.data()};
  if (std::is_same_v<Acc, float> && kernels_.attend != nullptr && kernels_.attend(heads)) return;
  attend_by_the_book(heads, scratch);
}

template <typename Acc>
void CpuOps<Acc>::attention(const AttentionArgs& args) {
  const auto rows = static_cast<int64_t>(args.rows.size());
  const int64_t keys_max = args.kv_view.layout.window + (args.source == nullptr ? 0 : args.top_k);
  // Few rows: several tasks a row, each with some of its heads, in fours where they come in fours.
  const int32_t unit = args.heads % 4 == 0 ? 4 : 1, units = args.heads / unit;
  const int64_t parts =
      rows >= pool_.num_threads() ? 1 : std::min<int64_t>(pool_.num_threads(), units);
  const int64_t operations = 2 * keys_max * args.kv_view.layout.head_dim * args.heads / parts;
  for_each(rows * parts, operations, [&](int64_t task, Scratch& scratch) {
    const int64_t part = task % parts;
    attend_heads(args, task / parts, static_cast<int32_t>(part * units / parts) * unit,
                 static_cast<int32_t>((part + 1) * units / parts) * unit, scratch);
  });
}

template void CpuOps<float>::attend_heads(const AttentionArgs&, int64_t, int32_t, int32_t,
                                          Scratch&);
template void CpuOps<double>::attend_heads(const AttentionArgs&, int64_t, int32_t, int32_t,
                                           Scratch&);
template void CpuOps<float>::attention(const AttentionArgs&);
template void CpuOps<double>::attention(const AttentionArgs&);

}  // namespace yeoul::cpu
