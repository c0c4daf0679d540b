// Attention at the release's widths: 512 channels, 64 heads, window 128 and 512 selected rows.

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/test_values.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

// One sequence: its ring, its staged rows, and pages of one source of ratio 1 in scattered order.
class Scene {
 public:
  Scene(int32_t head_dim, int32_t heads, int32_t window, int32_t top_k, int64_t position,
        int32_t step_rows)
      : heads_(heads), top_k_(top_k), position_(position), step_rows_(step_rows) {
    KvLayout& layout = view_.layout;
    layout = {.head_dim = head_dim,
              .index_head_dim = 32,
              .window = window,
              .num_layers = 1,
              .tokens_per_page = 64};
    source_ = {.layer = 0,
               .ratio = 1,
               .rows_per_page = 64,
               .codes_offset = 0,
               .scales_offset = 64 * layout.code_bytes(),
               .key_codes_offset = 64 * (layout.code_bytes() + layout.scale_bytes()),
               .key_scales_offset = 0};
    layout.page_bytes = 64 * (layout.code_bytes() + layout.scale_bytes() + layout.key_code_bytes() +
                              layout.key_scale_bytes());
    const int64_t tokens = position + step_rows, num_pages = (tokens + 63) / 64;
    for (int64_t p = num_pages - 1; p >= 0; --p) page_list_.push_back(static_cast<int32_t>(p));
    pages_.resize(static_cast<size_t>(num_pages * layout.page_bytes));
    ring_.resize(static_cast<size_t>(window * layout.window_row_bytes()));
    staged_.resize(static_cast<size_t>(step_rows * layout.window_row_bytes()));
    view_.pages = pages_.data();
    view_.ring = ring_.data();
    view_.staged = staged_.data();
    view_.rows_max = step_rows;
    item_ = {0, 0, step_rows, position, page_list_.data(), 0};
    view_.items = &item_;
    window_rows_.resize(static_cast<size_t>(tokens));
    compressed_rows_.resize(static_cast<size_t>(tokens));
    for (int64_t p = 0; p < tokens; ++p) fill_row(p);
    for (int32_t r = 0; r < step_rows; ++r) {
      positions_.push_back(position + r);
      select_rows(position + r);
    }
    item_of_.resize(static_cast<size_t>(step_rows));
    queries_ = test_bf16(77, int64_t{step_rows} * heads * head_dim, 3);
    sink_ = test_floats(78, heads, 2);
  }

  std::vector<Bf16> run(const std::vector<int32_t>& rows, int threads,
                        Accumulate accumulate = Accumulate::kFloat, bool with_source = true,
                        Isa isa = best_isa()) {
    const int64_t width = view_.layout.head_dim;
    ThreadPool pool(threads);
    const auto ops = make_cpu_ops(accumulate, pool,
                                  {.hidden = width,
                                   .copies = 1,
                                   .heads = heads_,
                                   .head_dim = view_.layout.head_dim,
                                   .window = view_.layout.window,
                                   .top_k = top_k_},
                                  isa);
    std::vector<Bf16> queries;
    for (const int32_t row : rows) {
      const auto begin = queries_.begin() + row * heads_ * width;
      queries.insert(queries.end(), begin, begin + heads_ * width);
    }
    std::vector<Bf16> out(queries.size(), Bf16{0x7FC0});
    ops->attention({queries.data(), rows, positions_.data(), item_of_.data(), 0, heads_,
                    with_source ? &source_ : nullptr, selected_.data(), num_selected_.data(),
                    top_k_, sink_.data(), view_, out.data()});
    return out;
  }

  std::vector<Bf16>& queries() { return queries_; }

  // The softmax of model.md section 3.4 in float64, without blocks and without rounding weights.
  double worst_error(const std::vector<Bf16>& out, int32_t row) const {
    const auto width = static_cast<size_t>(view_.layout.head_dim);
    std::vector<const std::vector<float>*> keys;
    const int64_t position = positions_[static_cast<size_t>(row)];
    for (int64_t p = std::max<int64_t>(0, position - view_.layout.window + 1); p <= position; ++p) {
      keys.push_back(&window_rows_[static_cast<size_t>(p)]);
    }
    for (int32_t j = 0; j < num_selected_[static_cast<size_t>(row)]; ++j) {
      keys.push_back(
          &compressed_rows_[static_cast<size_t>(selected_[static_cast<size_t>(row * top_k_ + j)])]);
    }
    double worst = 0;
    for (int32_t h = 0; h < heads_; ++h) {
      const Bf16* query = queries_.data() + static_cast<size_t>(row * heads_ + h) * width;
      double denominator = std::exp(static_cast<double>(sink_[static_cast<size_t>(h)]));
      std::vector<double> sum(width);
      for (const std::vector<float>* key : keys) {
        double z = 0;
        for (size_t d = 0; d < width; ++d) {
          z += static_cast<double>(to_float(query[d])) * static_cast<double>((*key)[d]);
        }
        const double e = std::exp(z / std::sqrt(static_cast<double>(width)));
        denominator += e;
        for (size_t d = 0; d < width; ++d) sum[d] += e * static_cast<double>((*key)[d]);
      }
      for (size_t d = 0; d < width; ++d) {
        const double found = static_cast<double>(to_float(out[static_cast<size_t>(h) * width + d]));
        worst = std::max(worst, std::fabs(found - sum[d] / denominator));
      }
    }
    return worst;
  }

  int32_t num_rows() const { return step_rows_; }
  size_t row_values() const { return static_cast<size_t>(heads_ * view_.layout.head_dim); }

 private:
  void fill_row(int64_t p) {
    const KvLayout& layout = view_.layout;
    const auto width = static_cast<size_t>(layout.head_dim);
    const auto seed = static_cast<uint64_t>(1000 + p);
    const std::vector<float> x = test_floats(seed, layout.head_dim);
    uint8_t* row = p >= position_ ? view_.staged_row(0, static_cast<int32_t>(p - position_))
                                  : ring_.data() + p % layout.window * layout.window_row_bytes();
    encode_fp8_row(x, {row, row + width});
    std::vector<float>& window = window_rows_[static_cast<size_t>(p)];
    window.resize(width);
    decode_fp8_row(row, row + width, window);
    int64_t at = 0;
    uint8_t* page = view_.page_of(item_, source_, p, &at);
    uint8_t* codes = page + source_.codes_offset + at * layout.code_bytes();
    uint8_t* scales = page + source_.scales_offset + at * layout.scale_bytes();
    encode_compressed_row(test_floats(seed + 50000, layout.head_dim), codes, scales);
    std::vector<float>& compressed = compressed_rows_[static_cast<size_t>(p)];
    compressed.resize(width);
    decode_compressed_row(codes, scales, compressed);
  }

  // Some of the visible rows, ascending.
  void select_rows(int64_t position) {
    std::vector<int32_t> chosen;
    for (int64_t row = position % 3; row <= position && chosen.size() < static_cast<size_t>(top_k_);
         row += position > 2 * top_k_ ? 2 : 1) {
      chosen.push_back(static_cast<int32_t>(row));
    }
    num_selected_.push_back(static_cast<int32_t>(chosen.size()));
    chosen.resize(static_cast<size_t>(top_k_), -1);
    selected_.insert(selected_.end(), chosen.begin(), chosen.end());
  }

  int32_t heads_, top_k_;
  int64_t position_;
  int32_t step_rows_;
  KvView view_;
  SourceLayout source_;
  ItemView item_;
  std::vector<int32_t> page_list_, item_of_, selected_, num_selected_;
  std::vector<int64_t> positions_;
  std::vector<uint8_t> pages_, ring_, staged_;
  std::vector<std::vector<float>> window_rows_, compressed_rows_;
  std::vector<Bf16> queries_;
  std::vector<float> sink_;
};

// Outputs are below 1: half a BF16 ulp is 0.002; weights rounded to BF16 add as much again at most.
constexpr double kBound = 0.004;

TEST(Attention, of_release_width_over_window_and_512_rows_is_the_softmax_with_a_sink) {
  Scene scene(512, 64, 128, 512, 1100, 2);
  for (const Accumulate accumulate : {Accumulate::kFloat, Accumulate::kDouble}) {
    const std::vector<Bf16> out = scene.run({1}, 1, accumulate);
    EXPECT_LE(scene.worst_error(out, 1), kBound);
  }
  // Reading the window alone is another result: the bound can tell.
  EXPECT_GT(scene.worst_error(scene.run({1}, 1, Accumulate::kFloat, false), 1), 2 * kBound);
}

TEST(Attention, of_short_sequences_sees_only_what_exists) {
  for (const int32_t rows : {1, 2, 63, 65, 130}) {
    Scene scene(64, 2, 64, 96, 0, rows);
    const std::vector<Bf16> out = scene.run({rows - 1}, 1);
    EXPECT_LE(scene.worst_error(out, rows - 1), kBound) << rows;
  }
}

TEST(Attention, rows_and_threads_do_not_change_bits) {
  Scene scene(512, 8, 128, 512, 700, 5);
  const std::vector<Bf16> all = scene.run(first_rows(5), 1);
  EXPECT_EQ(scene.run(first_rows(5), 3), all);
  for (int32_t row = 0; row < 5; ++row) {
    const auto begin =
        all.begin() + static_cast<int64_t>(static_cast<size_t>(row) * scene.row_values());
    const std::vector<Bf16> expected(begin, begin + static_cast<int64_t>(scene.row_values()));
    EXPECT_EQ(scene.run({row}, 1), expected);
    EXPECT_EQ(scene.run({row}, 3), expected);  // one row shared by three threads
  }
}

TEST(Attention, every_instruction_set_gives_the_bits_of_the_scalar_path) {
  struct Shape {
    int32_t head_dim, heads, window, top_k;
    int64_t position;
    int32_t rows;
  };
  const Shape shapes[] = {{512, 64, 128, 512, 1100, 2}, {512, 12, 128, 512, 30, 3},
                          {512, 8, 128, 16, 5000, 2},   {64, 4, 40, 7, 0, 130},
                          {128, 8, 33, 100, 90, 40},    {64, 5, 16, 8, 50, 2}};
  for (const Shape& shape : shapes) {
    Scene scene(shape.head_dim, shape.heads, shape.window, shape.top_k, shape.position, shape.rows);
    const std::vector<int32_t> rows = first_rows(shape.rows);
    const auto compare = [&](const char* what) {
      const auto expected = scene.run(rows, 1, Accumulate::kFloat, true, Isa::kScalar);
      const auto window = scene.run(rows, 1, Accumulate::kFloat, false, Isa::kScalar);
      for (const Isa isa : available_isas()) {
        EXPECT_EQ(scene.run(rows, 2, Accumulate::kFloat, true, isa), expected)
            << name_of(isa) << " " << what << " heads " << shape.heads;
        EXPECT_EQ(scene.run(rows, 1, Accumulate::kFloat, false, isa), window)
            << name_of(isa) << " " << what;
      }
    };
    compare("as drawn");
    for (Bf16& q : scene.queries()) q = to_bf16(40 * to_float(q));
    compare("with weights down to nothing");
    scene.queries()[3] = to_bf16(0x1p-100f);
    compare("with an operand that is not plain");
  }
}

TEST(Attention, without_rows_does_nothing) {
  Scene scene(64, 2, 64, 96, 10, 2);
  EXPECT_TRUE(scene.run({}, 2).empty());
}

}  // namespace
}  // namespace yeoul::cpu
