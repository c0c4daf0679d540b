// The indexer at the release's widths (32 heads of 128, the best 512 rows) against brute force.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/cpu/test_values.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

using Pool = IndexSelectArgs::Pool;

struct Shape {
  int32_t heads = 32;
  int32_t width = 128;
  int32_t top_k = 512;
  int32_t ratio = 1;
  int32_t block_size = 8;
  int32_t pool_max = 64;
};

// One sequence of `tokens` tokens whose last `step_rows` are at hand. Keys lie on pages of 256
// tokens in reverse order.
class IndexScene {
 public:
  IndexScene(const Shape& shape, int64_t tokens, int32_t step_rows)
      : shape_(shape), tokens_(tokens), step_rows_(step_rows) {
    KvLayout& layout = view_.layout;
    layout = {.head_dim = 32,
              .index_head_dim = shape.width,
              .window = 1,
              .num_layers = 1,
              .tokens_per_page = 256};
    source_ = {.ratio = shape.ratio, .rows_per_page = 256 / shape.ratio};
    source_.key_scales_offset = source_.rows_per_page * layout.key_code_bytes();
    layout.page_bytes =
        source_.rows_per_page * (layout.key_code_bytes() + layout.key_scale_bytes());
    const int64_t num_pages = (tokens + 255) / 256;
    for (int64_t p = num_pages; p > 0; --p) page_list_.push_back(static_cast<int32_t>(p - 1));
    pages_.resize(static_cast<size_t>(num_pages * layout.page_bytes));
    view_.pages = pages_.data();
    item_ = {0, 0, step_rows, tokens - step_rows, page_list_.data(), 0};
    view_.items = &item_;
    for (int64_t g = 0; g < tokens / shape.ratio; ++g) {
      set_key(g, test_floats(static_cast<uint64_t>(g + 10), shape.width));
    }
    queries = test_bf16(5, int64_t{step_rows} * shape.heads * shape.width, 2);
    weights = test_bf16(6, int64_t{step_rows} * shape.heads);
    for (int32_t r = 0; r < step_rows; ++r) positions_.push_back(tokens - step_rows + r);
    item_of_.resize(static_cast<size_t>(step_rows));
    pool.resize(static_cast<size_t>(step_rows * shape.pool_max));
    num_pool.resize(static_cast<size_t>(step_rows));
  }

  void set_key(int64_t g, const std::vector<float>& values) {
    int64_t at = 0;
    uint8_t* page = view_.page_of(item_, source_, g, &at);
    encode_index_row(values, page + at * view_.layout.key_code_bytes(),
                     page + source_.key_scales_offset + at * view_.layout.key_scale_bytes());
  }
  void copy_key(int64_t from, int64_t to) { set_key(to, key(from)); }

  std::vector<float> key(int64_t g) {
    int64_t at = 0;
    const uint8_t* page = view_.page_of(item_, source_, g, &at);
    std::vector<float> values(static_cast<size_t>(shape_.width));
    decode_index_row(page + at * view_.layout.key_code_bytes(),
                     page + source_.key_scales_offset + at * view_.layout.key_scale_bytes(),
                     values);
    return values;
  }

  int64_t visible(int32_t row) const {
    return (positions_[static_cast<size_t>(row)] + 1) / shape_.ratio;
  }

  // -> rows selected for each step row, in the order given.
  std::vector<std::vector<int32_t>> run(Pool mode, int threads = 1,
                                        Accumulate accumulate = Accumulate::kFloat,
                                        Isa isa = best_isa()) {
    ThreadPool thread_pool(threads);
    const auto ops = make_cpu_ops(accumulate, thread_pool,
                                  {.hidden = shape_.width,
                                   .copies = 1,
                                   .head_dim = 32,
                                   .index_heads = shape_.heads,
                                   .index_head_dim = shape_.width,
                                   .index_rows_max = tokens_,
                                   .block_size = shape_.block_size},
                                  isa);
    std::vector<int32_t> selected(static_cast<size_t>(step_rows_ * shape_.top_k), -7);
    std::vector<int32_t> num_selected(static_cast<size_t>(step_rows_), -7);
    scores.assign(static_cast<size_t>(step_rows_ * tokens_), NAN);
    ops->index_select({queries.data(), weights.data(), first_rows(step_rows_), positions_.data(),
                       item_of_.data(), source_, view_, shape_.heads, shape_.top_k, selected.data(),
                       num_selected.data(), mode, shape_.block_size, shape_.pool_max, pool.data(),
                       num_pool.data(), scores.data(), tokens_});
    std::vector<std::vector<int32_t>> lists;
    for (int32_t r = 0; r < step_rows_; ++r) {
      const auto begin = selected.begin() + r * shape_.top_k;
      lists.emplace_back(begin, begin + num_selected[static_cast<size_t>(r)]);
    }
    return lists;
  }

  float score(int32_t row, int64_t g) const {
    return scores[static_cast<size_t>(row * tokens_ + g)];
  }

  // The score in float64.
  double wanted_score(int32_t row, int64_t g) {
    const std::vector<float> k = key(g);
    const auto width = static_cast<size_t>(shape_.width);
    double total = 0;
    for (int32_t h = 0; h < shape_.heads; ++h) {
      const auto at = static_cast<size_t>(row * shape_.heads + h);
      std::vector<float> q(width);
      for (size_t d = 0; d < width; ++d) q[d] = to_float(queries[at * width + d]);
      std::vector<uint8_t> codes(width / 2), scales(width / 32);
      encode_index_row(q, codes.data(), scales.data());
      decode_index_row(codes.data(), scales.data(), q);
      double dot = 0;
      for (size_t d = 0; d < width; ++d)
        dot += static_cast<double>(q[d]) * static_cast<double>(k[d]);
      total += std::max(dot, 0.0) * static_cast<double>(to_float(weights[at])) /
               std::sqrt(static_cast<double>(shape_.width)) /
               std::sqrt(static_cast<double>(shape_.heads));
    }
    return total;
  }

  // The k best of `among` by (score, smaller row), ascending; the scores are those of the run.
  std::vector<int32_t> best(int32_t row, std::vector<int32_t> among) const {
    std::stable_sort(among.begin(), among.end(),
                     [&](int32_t a, int32_t b) { return score(row, a) > score(row, b); });
    if (among.size() > static_cast<size_t>(shape_.top_k)) {
      among.resize(static_cast<size_t>(shape_.top_k));
    }
    std::sort(among.begin(), among.end());
    return among;
  }

  std::vector<Bf16> queries, weights;
  std::vector<int32_t> pool, num_pool;
  std::vector<float> scores;

 private:
  Shape shape_;
  int64_t tokens_;
  int32_t step_rows_;
  KvView view_;
  SourceLayout source_;
  ItemView item_;
  std::vector<int32_t> page_list_, item_of_;
  std::vector<int64_t> positions_;
  std::vector<uint8_t> pages_;
};

TEST(IndexSelect, picks_the_512_best_of_thousands_of_rows) {
  for (const int32_t ratio : {1, 2}) {
    IndexScene scene({.ratio = ratio}, 3000, 3);
    for (const Accumulate accumulate : {Accumulate::kFloat, Accumulate::kDouble}) {
      const auto lists = scene.run(Pool::kNone, 1, accumulate);
      for (int32_t r = 0; r < 3; ++r) {
        for (int64_t g = 0; g < scene.visible(r); g += 7) {
          ASSERT_NEAR(scene.score(r, g), scene.wanted_score(r, g), 1e-4) << g;
        }
        EXPECT_EQ(lists[static_cast<size_t>(r)], scene.best(r, first_rows(scene.visible(r))));
      }
    }
  }
}

TEST(IndexSelect, sees_whole_groups_only_and_all_of_them_when_they_are_few) {
  for (const int64_t tokens : {1, 2, 3, 511, 512, 513}) {
    IndexScene scene({.heads = 4, .width = 32, .ratio = 2}, tokens, 1);
    const auto lists = scene.run(Pool::kNone);
    EXPECT_EQ(lists[0], first_rows(tokens / 2)) << tokens;
  }
}

TEST(IndexSelect, breaks_ties_to_the_smaller_row_also_between_zeros_of_both_signs) {
  IndexScene scene({.heads = 4, .width = 32, .top_k = 20}, 600, 1);
  // Without weight every score is +0 or -0: all equal.
  for (size_t h = 0; h < 4; ++h) scene.weights[h] = to_bf16(h % 2 == 0 ? 0.0f : -0.0f);
  EXPECT_EQ(scene.run(Pool::kNone)[0], first_rows(20));
  for (int64_t g = 0; g < 600; ++g) EXPECT_FALSE(std::signbit(scene.score(0, g)));
  // Copies of one key: equal scores, the cut falls among them.
  for (size_t h = 0; h < 4; ++h) scene.weights[h] = to_bf16(1.0f);
  scene.run(Pool::kNone);
  const std::vector<int32_t> top = scene.best(0, first_rows(600));
  for (const int64_t to : {595, 7, 301, 402}) scene.copy_key(top[10], to);
  const std::vector<int32_t> found = scene.run(Pool::kNone)[0];
  EXPECT_EQ(found, scene.best(0, first_rows(600)));
}

TEST(IndexSelect, never_picks_a_row_whose_score_is_not_a_number) {
  IndexScene scene({.heads = 4, .width = 32, .top_k = 20}, 100, 1);
  scene.weights[2] = to_bf16(std::numeric_limits<float>::quiet_NaN());
  // relu(0 or more) * NaN is NaN for every row.
  EXPECT_TRUE(scene.run(Pool::kNone)[0].empty());
  EXPECT_TRUE(scene.run(Pool::kFill)[0].empty());
  EXPECT_EQ(scene.num_pool[0], 1);  // the newest block stays in whatever it scores
}

TEST(IndexSelect, fills_the_pool_with_the_best_blocks_and_the_newest_one) {
  const Shape shape{.heads = 8, .width = 64, .top_k = 64, .block_size = 8, .pool_max = 24};
  IndexScene scene(shape, 1003, 2);
  const auto lists = scene.run(Pool::kFill);
  std::vector<std::vector<int32_t>> rows_in_pool(2);
  for (int32_t r = 0; r < 2; ++r) {
    const int64_t visible = scene.visible(r), blocks = (visible + 7) / 8;
    std::vector<std::pair<float, int32_t>> order;  // (-best score, block)
    for (int64_t b = 0; b < blocks; ++b) {
      float best = -std::numeric_limits<float>::infinity();
      for (int64_t g = 8 * b; g < std::min(8 * b + 8, visible); ++g) {
        best = std::max(best, scene.score(r, g));
      }
      if (b == blocks - 1) best = std::numeric_limits<float>::infinity();
      order.emplace_back(-best, static_cast<int32_t>(b));
    }
    std::sort(order.begin(), order.end());
    std::vector<int32_t> expected;
    for (size_t i = 0; i < 24; ++i) expected.push_back(order[i].second);
    std::sort(expected.begin(), expected.end());
    const auto begin = scene.pool.begin() + r * 24;
    ASSERT_EQ(scene.num_pool[static_cast<size_t>(r)], 24);
    EXPECT_EQ((std::vector<int32_t>{begin, begin + 24}), expected);
    // The layer's own selection is not confined to the pool.
    EXPECT_EQ(lists[static_cast<size_t>(r)], scene.best(r, first_rows(visible)));
    for (const int32_t b : expected) {
      for (int64_t g = 8 * b; g < std::min<int64_t>(8 * b + 8, visible); ++g) {
        rows_in_pool[static_cast<size_t>(r)].push_back(static_cast<int32_t>(g));
      }
    }
  }
  // Another layer, with other queries, stays inside.
  scene.queries = test_bf16(55, static_cast<int64_t>(scene.queries.size()), 2);
  const auto inside = scene.run(Pool::kUse);
  for (size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(inside[r], scene.best(static_cast<int32_t>(r), rows_in_pool[r]));
  }
}

TEST(IndexSelect, every_instruction_set_scores_and_selects_as_the_scalar_path_does) {
  for (const int64_t tokens : {1, 15, 16, 17, 300, 9001}) {
    IndexScene scene({.top_k = 20, .pool_max = 40}, tokens, 1);
    // An empty key, keys of extreme size, a head that looks for nothing.
    if (tokens > 200) {
      scene.set_key(7, std::vector<float>(128, 0.0f));
      scene.set_key(100, std::vector<float>(128, 0x1p-90f));
      scene.set_key(130, std::vector<float>(128, 0x1p40f));
    }
    std::fill_n(scene.queries.begin() + 3 * 128, 128, Bf16{});
    for (const Pool mode : {Pool::kNone, Pool::kFill, Pool::kUse}) {
      const auto expected = scene.run(mode, 1, Accumulate::kFloat, Isa::kScalar);
      const std::vector<float> scores = scene.scores;
      const std::vector<int32_t> pool = scene.pool;
      for (const Isa isa : available_isas()) {
        for (const int threads : {1, 3}) {
          EXPECT_EQ(scene.run(mode, threads, Accumulate::kFloat, isa), expected) << name_of(isa);
          EXPECT_EQ(scene.pool, pool);
          ASSERT_EQ(std::memcmp(scene.scores.data(), scores.data(), scores.size() * sizeof(float)),
                    0)
              << name_of(isa) << " tokens " << tokens << " threads " << threads;
        }
      }
    }
  }
}

TEST(IndexSelect, keeps_the_best_when_scores_rise_and_when_they_are_equal) {
  // Rising scores: every row enters and pushes an older one out. Equal ones: none after the first.
  for (const double step : {1.0, 0.0}) {
    IndexScene scene({.heads = 4, .width = 32, .top_k = 5}, 400, 1);
    scene.queries = std::vector<Bf16>(scene.queries.size(), to_bf16(1.0f));
    for (Bf16& w : scene.weights) w = to_bf16(1.0f);
    for (int64_t g = 0; g < 400; ++g) {
      const double size = 1 + step * static_cast<double>(g);
      scene.set_key(g, std::vector<float>(32, static_cast<float>(size)));
    }
    const std::vector<int32_t> found = scene.run(Pool::kNone)[0];
    EXPECT_EQ(found, scene.best(0, first_rows(400)));
  }
}

TEST(IndexSelect, rows_and_threads_do_not_change_the_selection_nor_the_scores) {
  IndexScene many({.top_k = 64}, 900, 9);
  const auto lists = many.run(Pool::kFill, 1);
  const std::vector<float> scores = many.scores;
  const std::vector<int32_t> pool = many.pool;
  EXPECT_EQ(many.run(Pool::kFill, 3), lists);
  EXPECT_EQ(many.pool, pool);
  for (size_t i = 0; i < scores.size(); ++i) ASSERT_EQ(many.scores[i], scores[i]);
}

}  // namespace
}  // namespace yeoul::cpu
