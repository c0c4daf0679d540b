// The indexer's scores and its two-level selection (model.md section 3.6).

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/instruction_sets.h"
#include "base/check.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/kv_rows.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul::cpu {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
constexpr int kKeyMax = 1024;         // widest index key
constexpr int64_t kScoreTask = 4096;  // keys of one task when a row's scores are shared out

// Ascending indices come in; the `k` best by (score descending, index ascending) stay, in bounded
// room: what is not above the k-th best of the time when the room was last full cannot enter.
class BestOf {
 public:
  BestOf(const float* scores, int64_t k, int32_t* order, int64_t room)
      : scores_(scores), k_(k), order_(order), room_(std::min(2 * k, room)) {}

  // Scores from `begin` to `end`, of which few are above the threshold once it stands.
  void add_range(int64_t begin, int64_t end);
  // Sorts what is kept by index and says how many.
  int64_t finish() {
    if (count_ > k_) keep_best();
    std::sort(order_, order_ + count_);
    return count_;
  }

 private:
  void keep_best() {
    std::nth_element(order_, order_ + k_ - 1, order_ + count_, [&](int32_t a, int32_t b) {
      return scores_[a] > scores_[b] || (scores_[a] == scores_[b] && a < b);
    });
    count_ = k_;
    threshold_ = scores_[order_[k_ - 1]];
  }

  const float* scores_;
  int64_t k_;
  int32_t* order_;
  int64_t room_;
  int64_t count_ = 0;
  float threshold_ = kHidden;
};

YEOUL_CLONES bool any_above(const float* scores, int64_t count, float threshold) {
  int above = 0;
  for (int64_t i = 0; i < count; ++i) above |= scores[i] > threshold;
  return above != 0;
}

void BestOf::add_range(int64_t begin, int64_t end) {
  constexpr int64_t kStride = 64;
  if (k_ == 0) return;
  for (int64_t first = begin; first < end; first += kStride) {
    const int64_t last = std::min(first + kStride, end);
    if (!any_above(scores_ + first, last - first, threshold_)) continue;
    for (int64_t i = first; i < last; ++i) {
      if (!(scores_[i] > threshold_)) continue;
      if (count_ == room_) keep_best();
      if (scores_[i] > threshold_) order_[count_++] = static_cast<int32_t>(i);
    }
  }
}

// Twice the values of a row's codes; of each group of 32 the low nibbles first, then the high ones
// (a dot product of integers has no order).
[[gnu::always_inline]] inline void double_codes(const uint8_t* pairs, int32_t width, int8_t* out) {
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
[[gnu::always_inline]] inline float score_key_loop(const IndexQuery& query,
                                                   const uint8_t* key_codes,
                                                   const uint8_t* key_scales) {
  int8_t key[kKeyMax];
  float scales[kKeyMax / kIndexGroup];
  const int groups = query.width / kIndexGroup;
  double_codes(key_codes, query.width, key);
  for (int g = 0; g < groups; ++g) scales[g] = ue8m0_to_float(key_scales[g]) * 0.25f;
  Acc total = 0;
  for (int h = 0; h < query.heads; ++h) {
    const int8_t* codes = query.codes + h * query.width;
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

YEOUL_CLONES float score_key(const IndexQuery& query, const uint8_t* codes, const uint8_t* scales,
                             float) {
  return score_key_loop<float>(query, codes, scales);
}
YEOUL_CLONES float score_key(const IndexQuery& query, const uint8_t* codes, const uint8_t* scales,
                             double) {
  return score_key_loop<double>(query, codes, scales);
}

// Up to kKeysAtOnce keys on their way to the kernel; any order, any distance.
template <typename Acc>
class KeyBatch {
 public:
  KeyBatch(const Kernels& kernels, const IndexQuery& query, float* scores)
      : kernels_(kernels), query_(query), scores_(scores) {}

  void add(int64_t row, const uint8_t* codes, const uint8_t* scales) {
    rows_[count_] = row;
    codes_[count_] = codes;
    key_scales_[count_++] = scales;
    if (count_ == kKeysAtOnce) flush();
  }
  void flush() {
    if (count_ == 0) return;
    float found[kKeysAtOnce];
    const bool done = std::is_same_v<Acc, float> && kernels_.score_keys != nullptr &&
                      kernels_.score_keys(query_, codes_, key_scales_, count_, found);
    for (int i = 0; i < count_; ++i) {
      scores_[rows_[i]] = done ? found[i] : score_key(query_, codes_[i], key_scales_[i], Acc{});
    }
    count_ = 0;
  }

 private:
  const Kernels& kernels_;
  const IndexQuery& query_;
  float* scores_;
  int64_t rows_[kKeysAtOnce];
  const uint8_t* codes_[kKeysAtOnce];
  const uint8_t* key_scales_[kKeysAtOnce];
  int count_ = 0;
};

template <typename Acc>
void add_rows(const IndexSelectArgs& args, const ItemView& item, int64_t begin, int64_t end,
              KeyBatch<Acc>& batch) {
  const KvLayout& layout = args.kv_view.layout;
  const int64_t code_bytes = layout.key_code_bytes(), scale_bytes = layout.key_scale_bytes();
  for (int64_t g = begin; g < end;) {
    int64_t at = 0;
    const uint8_t* page = args.kv_view.page_of(item, args.source, g, &at);
    const uint8_t* codes = page + args.source.key_codes_offset + at * code_bytes;
    const uint8_t* scales = page + args.source.key_scales_offset + at * scale_bytes;
    const int64_t count = std::min(args.source.rows_per_page - at, end - g);
    for (int64_t i = 0; i < count; ++i) {
      batch.add(g + i, codes + i * code_bytes, scales + i * scale_bytes);
    }
    g += count;
  }
}

// The query of row i, quantised into the scratch. A group of zeros gets the scale one: it adds
// zero.
template <typename Scratch>
IndexQuery quantise_query(const IndexSelectArgs& args, int64_t i, Scratch& scratch) {
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
    int8_t* doubled = scratch.query_codes.data() + h * width;
    double_codes(codes, width, doubled);
    for (int g = 0; g < groups; ++g) {
      const int8_t* group = doubled + g * kIndexGroup;
      const bool zeros = std::all_of(group, group + kIndexGroup, [](int8_t c) { return c == 0; });
      scratch.query_scales[static_cast<size_t>(h * groups + g)] =
          zeros ? 1.0f : ue8m0_to_float(scales[g]);
    }
    weights[h] = to_float(args.head_weights[i * args.heads + h]) * weight_scale;
  }
  return {scratch.query_codes.data(), scratch.query_scales.data(), weights, args.heads, width};
}

}  // namespace

// Blocks of the candidate pool: the best by their largest score, the newest forced in.
template <typename Acc>
int32_t CpuOps<Acc>::fill_pool(const IndexSelectArgs& args, int64_t visible, Scratch& scratch,
                               int32_t* pool) {
  const float* scores = scratch.scores.data();
  const int64_t size = args.block_size, blocks = (visible + size - 1) / size;
  for (int64_t b = 0; b < blocks; ++b) {
    float best = kHidden;
    for (int64_t row = b * size; row < std::min((b + 1) * size, visible); ++row) {
      best = std::max(best, scores[row]);
    }
    if (b == blocks - 1) best = std::numeric_limits<float>::infinity();
    scratch.block_max[static_cast<size_t>(b)] = best;
  }
  BestOf best(scratch.block_max.data(), args.pool_max, scratch.order.data(),
              static_cast<int64_t>(scratch.order.size()));
  best.add_range(0, blocks);
  const int64_t count = best.finish();
  std::copy_n(scratch.order.data(), count, pool);
  return static_cast<int32_t>(count);
}

// Part `task` of the keys row i looks at: a run of rows, or of blocks of its pool.
template <typename Acc>
void CpuOps<Acc>::score_part(const IndexSelectArgs& args, int64_t i, const IndexQuery& query,
                             int64_t task, float* scores) {
  const int64_t row = args.rows[static_cast<size_t>(i)];
  const int64_t visible = (args.positions[row] + 1) / args.source.ratio;
  const ItemView& item = args.kv_view.items[args.item_of[row]];
  KeyBatch<Acc> batch(kernels_, query, scores);
  if (args.pool_mode == IndexSelectArgs::Pool::kUse) {
    const int64_t per_task = std::max<int64_t>(1, kScoreTask / args.block_size);
    const int64_t end = std::min<int64_t>((task + 1) * per_task, args.num_pool[row]);
    for (int64_t b = task * per_task; b < end; ++b) {
      const int64_t begin = int64_t{args.pool[row * args.pool_max + b]} * args.block_size;
      add_rows(args, item, begin, std::min(begin + args.block_size, visible), batch);
    }
  } else {
    add_rows(args, item, task * kScoreTask, std::min((task + 1) * kScoreTask, visible), batch);
  }
  batch.flush();
}

template <typename Acc>
void CpuOps<Acc>::select_scored(const IndexSelectArgs& args, int64_t i, Scratch& scratch) {
  const int64_t row = args.rows[static_cast<size_t>(i)];
  const int64_t visible = (args.positions[row] + 1) / args.source.ratio;
  const float* scores = scratch.scores.data();
  int32_t* pool = args.pool == nullptr ? nullptr : args.pool + row * args.pool_max;
  float* trace = args.scores_out == nullptr ? nullptr : args.scores_out + i * args.scores_stride;
  if (trace != nullptr) std::fill_n(trace, args.scores_stride, kHidden);
  if (args.pool_mode == IndexSelectArgs::Pool::kFill) {
    args.num_pool[row] = fill_pool(args, visible, scratch, pool);
  }
  BestOf best(scores, args.top_k, scratch.order.data(), static_cast<int64_t>(scratch.order.size()));
  const auto consider = [&](int64_t begin, int64_t end) {
    best.add_range(begin, end);
    if (trace != nullptr) std::copy(scores + begin, scores + end, trace + begin);
  };
  if (args.pool_mode == IndexSelectArgs::Pool::kUse) {
    for (int32_t b = 0; b < args.num_pool[row]; ++b) {
      const int64_t begin = int64_t{pool[b]} * args.block_size;
      consider(begin, std::min(begin + args.block_size, visible));
    }
  } else {
    consider(0, visible);
  }
  const int64_t count = best.finish();
  std::copy_n(scratch.order.data(), count, args.selected + row * args.top_k);
  args.num_selected[row] = static_cast<int32_t>(count);
}

template <typename Acc>
void CpuOps<Acc>::index_select(const IndexSelectArgs& args) {
  CHECK(args.kv_view.layout.index_head_dim <= kKeyMax);
  const auto rows = static_cast<int64_t>(args.rows.size());
  int64_t longest = 1;
  for (const int32_t row : args.rows) longest = std::max(longest, args.positions[row] + 1);
  const int64_t keys = std::max<int64_t>(longest / args.source.ratio, 1);
  const int64_t operations = args.heads * args.kv_view.layout.index_head_dim;
  const int64_t parts = (keys + kScoreTask - 1) / kScoreTask;
  if (rows >= pool_.num_threads()) {
    for_each(rows, keys * operations, [&](int64_t i, Scratch& scratch) {
      const IndexQuery query = quantise_query(args, i, scratch);
      for (int64_t part = 0; part < parts; ++part) {
        score_part(args, i, query, part, scratch.scores.data());
      }
      select_scored(args, i, scratch);
    });
    return;
  }
  // Few rows: each row's keys are shared out, its selection is made by the caller.
  Scratch& own = scratch_[0];
  for (int64_t i = 0; i < rows; ++i) {
    const IndexQuery query = quantise_query(args, i, own);
    for_each(parts, std::min(keys, kScoreTask) * operations,
             [&](int64_t part, Scratch&) { score_part(args, i, query, part, own.scores.data()); });
    select_scored(args, i, own);
  }
}

template void CpuOps<float>::index_select(const IndexSelectArgs&);
template void CpuOps<double>::index_select(const IndexSelectArgs&);

}  // namespace yeoul::cpu
