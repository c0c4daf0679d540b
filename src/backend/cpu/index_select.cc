// The indexer's scores and its two-level selection (model.md section 3.6).

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/instruction_sets.h"
#include "base/check.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/kv_rows.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul::cpu {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr int kKeyMax = 1024;  // widest index key

// A quantised query of one row: doubled codes [heads][width], scales [heads][width/32].
struct Query {
  const int16_t* codes;
  const float* scales;
  const float* weights;  // of the heads, scaled
  int32_t heads;
  int32_t width;
};

// Keeps the `k` best of order[0..count) by (score descending, index ascending), then sorts them by
// index. score(i) must not be NaN. Returns how many were kept.
template <typename Score>
int64_t keep_best(int32_t* order, int64_t count, int64_t k, const Score& score) {
  if (count > k) {
    std::nth_element(order, order + k, order + count, [&](int32_t a, int32_t b) {
      const float sa = score(a), sb = score(b);
      return sa > sb || (sa == sb && a < b);
    });
    count = k;
  }
  std::sort(order, order + count);
  return count;
}

// Twice the values of a row's codes; of each group of 32 the low nibbles first, then the high ones
// (a dot product of integers has no order).
[[gnu::always_inline]] inline void double_codes(const uint8_t* pairs, int32_t width, int16_t* out) {
  constexpr int kHalf = kIndexGroup / 2;
  for (int32_t g = 0; g < width; g += kIndexGroup) {
    for (int i = 0; i < kHalf; ++i) {
      out[g + i] = kE2m1Doubled[pairs[g / 2 + i] & 15];
      out[g + kHalf + i] = kE2m1Doubled[pairs[g / 2 + i] >> 4];
    }
  }
}

// S = sum_h w_h * relu(q_h . k), the dot exact per group of 32.
template <typename Acc>
[[gnu::always_inline]] inline float score_key(const Query& query, const uint8_t* key_codes,
                                              const uint8_t* key_scales) {
  int16_t key[kKeyMax];
  float scales[kKeyMax / kIndexGroup];
  const int groups = query.width / kIndexGroup;
  double_codes(key_codes, query.width, key);
  for (int g = 0; g < groups; ++g) scales[g] = ue8m0_to_float(key_scales[g]) * 0.25f;
  Acc total = 0;
  for (int h = 0; h < query.heads; ++h) {
    const int16_t* codes = query.codes + h * query.width;
    Acc dot = 0;
    for (int g = 0; g < groups; ++g) {
      int32_t sum = 0;
      for (int i = 0; i < kIndexGroup; ++i) {
        sum += int32_t{codes[g * kIndexGroup + i]} * int32_t{key[g * kIndexGroup + i]};
      }
      dot += static_cast<Acc>(static_cast<float>(sum) * (query.scales[h * groups + g] * scales[g]));
    }
    const float relu = std::max(static_cast<float>(dot), 0.0f);
    total = std::fma(static_cast<Acc>(relu), static_cast<Acc>(query.weights[h]), total);
  }
  const float score = static_cast<float>(total) + 0.0f;  // -0 becomes +0
  return score == score ? score : kHidden;
}

// Scores of `count` keys that lie one after another.
YEOUL_CLONES void score_keys(const Query& query, const uint8_t* codes, int64_t code_bytes,
                             const uint8_t* scales, int64_t scale_bytes, int64_t count, float,
                             float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = score_key<float>(query, codes + i * code_bytes, scales + i * scale_bytes);
  }
}
YEOUL_CLONES void score_keys(const Query& query, const uint8_t* codes, int64_t code_bytes,
                             const uint8_t* scales, int64_t scale_bytes, int64_t count, double,
                             float* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = score_key<double>(query, codes + i * code_bytes, scales + i * scale_bytes);
  }
}

// Blocks of the candidate pool: the best by their largest score, the newest forced in.
template <typename Scratch>
int32_t fill_pool(const float* scores, int64_t visible, int32_t block_size, int32_t pool_max,
                  Scratch& scratch, int32_t* pool) {
  const int64_t blocks = (visible + block_size - 1) / block_size;
  int64_t count = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    float best = kHidden;
    for (int64_t row = b * block_size; row < std::min((b + 1) * block_size, visible); ++row) {
      best = std::max(best, scores[row]);
    }
    if (b == blocks - 1) best = std::numeric_limits<float>::infinity();
    scratch.block_max[static_cast<size_t>(b)] = best;
    if (best > kHidden) scratch.order[static_cast<size_t>(count++)] = static_cast<int32_t>(b);
  }
  count = keep_best(scratch.order.data(), count, pool_max,
                    [&](int32_t b) { return scratch.block_max[static_cast<size_t>(b)]; });
  std::copy_n(scratch.order.data(), count, pool);
  return static_cast<int32_t>(count);
}

// The query of row i, quantised into the scratch.
template <typename Scratch>
Query quantise_query(const IndexSelectArgs& args, int64_t i, Scratch& scratch) {
  const int32_t width = args.kv_view.layout.index_head_dim, groups = width / kIndexGroup;
  const float weight_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)) *
                                                (1.0 / std::sqrt(static_cast<double>(args.heads))));
  float* weights = scratch.query_scales.data() + args.heads * groups;
  for (int64_t h = 0; h < args.heads; ++h) {
    const Bf16* query = args.queries + (i * args.heads + h) * width;
    float* values = scratch.row.data();
    for (int64_t d = 0; d < width; ++d) values[d] = to_float(query[d]);
    uint8_t codes[kKeyMax / 2], scales[kKeyMax / kIndexGroup];
    encode_index_row({values, static_cast<size_t>(width)}, codes, scales);
    double_codes(codes, width, scratch.query_codes.data() + h * width);
    for (int g = 0; g < groups; ++g) {
      scratch.query_scales[static_cast<size_t>(h * groups + g)] = ue8m0_to_float(scales[g]);
    }
    weights[h] = to_float(args.head_weights[i * args.heads + h]) * weight_scale;
  }
  return {scratch.query_codes.data(), scratch.query_scales.data(), weights, args.heads, width};
}

}  // namespace

template <typename Acc>
void CpuOps<Acc>::select_row(const IndexSelectArgs& args, int64_t i, Scratch& scratch) {
  const int64_t row = args.rows[static_cast<size_t>(i)];
  const KvLayout& layout = args.kv_view.layout;
  CHECK(layout.index_head_dim <= kKeyMax);
  const Query query = quantise_query(args, i, scratch);
  const int64_t visible = (args.positions[row] + 1) / args.source.ratio;
  const ItemView& item = args.kv_view.items[args.item_of[row]];
  float* scores = scratch.scores.data();
  const auto score_rows = [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end;) {
      int64_t at = 0;
      const uint8_t* page = args.kv_view.page_of(item, args.source, g, &at);
      const int64_t count = std::min(args.source.rows_per_page - at, end - g);
      score_keys(query, page + args.source.key_codes_offset + at * layout.key_code_bytes(),
                 layout.key_code_bytes(),
                 page + args.source.key_scales_offset + at * layout.key_scale_bytes(),
                 layout.key_scale_bytes(), count, Acc{}, scores + g);
      g += count;
    }
  };
  int32_t* pool = args.pool == nullptr ? nullptr : args.pool + row * args.pool_max;
  int64_t count = 0;
  const auto consider = [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      if (scores[g] > kHidden)
        scratch.order[static_cast<size_t>(count++)] = static_cast<int32_t>(g);
    }
  };
  if (args.scores_out != nullptr) {
    std::fill_n(args.scores_out + i * args.scores_stride, args.scores_stride, kHidden);
  }
  const auto trace = [&](int64_t begin, int64_t end) {
    if (args.scores_out == nullptr) return;
    std::copy(scores + begin, scores + end, args.scores_out + i * args.scores_stride + begin);
  };
  if (args.pool_mode == IndexSelectArgs::Pool::kUse) {
    for (int32_t b = 0; b < args.num_pool[row]; ++b) {
      const int64_t begin = int64_t{pool[b]} * args.block_size;
      const int64_t end = std::min(begin + args.block_size, visible);
      score_rows(begin, end);
      consider(begin, end);
      trace(begin, end);
    }
  } else {
    score_rows(0, visible);
    trace(0, visible);
    if (args.pool_mode == IndexSelectArgs::Pool::kFill) {
      args.num_pool[row] =
          fill_pool(scores, visible, args.block_size, args.pool_max, scratch, pool);
    }
    consider(0, visible);
  }
  count = keep_best(scratch.order.data(), count, args.top_k, [&](int32_t g) { return scores[g]; });
  std::copy_n(scratch.order.data(), count, args.selected + row * args.top_k);
  args.num_selected[row] = static_cast<int32_t>(count);
}

template <typename Acc>
void CpuOps<Acc>::index_select(const IndexSelectArgs& args) {
  int64_t longest = 1;
  for (const int32_t row : args.rows) longest = std::max(longest, args.positions[row] + 1);
  const int64_t operations =
      longest / args.source.ratio * args.heads * args.kv_view.layout.index_head_dim;
  for_each(static_cast<int64_t>(args.rows.size()), std::max<int64_t>(operations, 1),
           [&](int64_t i, Scratch& scratch) { select_row(args, i, scratch); });
}

template void CpuOps<float>::select_row(const IndexSelectArgs&, int64_t, Scratch&);
template void CpuOps<double>::select_row(const IndexSelectArgs&, int64_t, Scratch&);
template void CpuOps<float>::index_select(const IndexSelectArgs&);
template void CpuOps<double>::index_select(const IndexSelectArgs&);

}  // namespace yeoul::cpu
