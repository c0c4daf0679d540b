#include "op_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <string_view>

#include "measure/release_layer.h"
#include "measure/roofs.h"

namespace yeoul::speed {
namespace {

class Layer {
 public:
  Layer(ThreadPool& pool, Isa isa, int64_t rows, int64_t context)
      : ops_(make_cpu_ops(Accumulate::kFloat, pool, release_limits(context), isa)),
        rows_(rows),
        context_(context),
        wide_(random_rows(rows * kHeads * kHeadDim, 1)),
        out_(wide_.size()),
        streams_(random_rows(rows * kCopies * kHidden, 2)) {
    row_index_.resize(static_cast<size_t>(rows));
    std::iota(row_index_.begin(), row_index_.end(), 0);
    positions_.resize(row_index_.size());
    for (size_t i = 0; i < positions_.size(); ++i) {
      positions_[i] = context - rows + static_cast<int64_t>(i);
    }
    items_.resize(row_index_.size());
    build_kv();
  }

  void run() {
    is_printing_ = true;
    fmt::print("{:<22}{:>12}{:>9}{:>10}\n", "op", "us", "GB/s", "GFLOP/s");
    linear("wq_a fp8", WeightFormat::kFp8, 1280, 5120, 1);
    linear("wq_b fp8", WeightFormat::kFp8, 32768, 1280, 1);
    linear("wkv fp8", WeightFormat::kFp8, 512, 5120, 1);
    linear("wo_a fp8 (8 of)", WeightFormat::kFp8, 1024, 4096, 8);
    linear("wo_b fp8", WeightFormat::kFp8, 5120, 8192, 1);
    linear("head bf16 (1/8)", WeightFormat::kBf16, 16160, 5120, 1);
    linear("gate bf16", WeightFormat::kBf16, 384, 5120, 1);
    expert("expert fp4", WeightFormat::kFp4);
    expert("shared fp8", WeightFormat::kFp8);
    streams();
    attention();
    index();
    total_line();
  }

  double index_seconds() {
    index();
    return last_;
  }

 private:
  void linear(std::string_view name, WeightFormat format, int64_t outputs, int64_t inputs,
              int times) {
    const RandomWeight w(format, outputs, inputs, 7);
    report(name, w.bytes() * times, 2.0 * static_cast<double>(rows_ * outputs * inputs * times),
           [&] {
             for (int i = 0; i < times; ++i) {
               ops_->linear(
                   {w.weight(),
                    format == WeightFormat::kBf16 ? ActivationRule::kAsIs : ActivationRule::kFp8,
                    wide_.data(), inputs, rows_, out_.data(), nullptr,
                    std::min(outputs, kHeads * kHeadDim)});
             }
           });
  }

  void expert(std::string_view name, WeightFormat format) {
    const RandomWeight w1(format, kExpertWidth, kHidden, 8), w3(format, kExpertWidth, kHidden, 9);
    const RandomWeight w2(format, kHidden, kExpertWidth, 10);
    const std::vector<float> weights(static_cast<size_t>(rows_), 0.2f);
    report(name, w1.bytes() + w2.bytes() + w3.bytes(),
           6.0 * static_cast<double>(rows_ * kHidden * kExpertWidth), [&] {
             ops_->expert({{w1.weight(), w2.weight(), w3.weight()},
                           wide_.data(),
                           row_index_,
                           row_index_,
                           weights.data(),
                           10,
                           out_.data()});
           });
    if (format != WeightFormat::kFp4) return;
    const RandomWeight gate(WeightFormat::kBf16, kExperts, kHidden, 12);
    const std::vector<float> bias(kExperts, 0.0f);
    std::vector<int32_t> experts(static_cast<size_t>(rows_ * kChosen));
    std::vector<float> chosen(experts.size());
    const std::vector<uint8_t> is_image(row_index_.size());
    report("route", gate.bytes(), 2.0 * static_cast<double>(rows_ * kExperts * kHidden), [&] {
      ops_->route({gate.weight(), bias.data(), bias.data(), 1, wide_.data(), rows_, row_index_,
                   is_image.data(), kChosen, true, 1.5f, experts.data(), chosen.data(), nullptr});
    });
    const std::vector<Bf16> parts = random_rows(rows_ * kChosen * kHidden, 13);
    report("combine", 0, 0, [&] {
      ops_->combine({parts.data(), experts.data(), wide_.data(), rows_, kHidden, kChosen,
                     out_.data(), nullptr});
    });
  }

  void streams() {
    std::vector<float> fn(24 * kCopies * kHidden, 0.001f), base(24, 0.1f), scale(3, 0.5f);
    const auto n = static_cast<size_t>(rows_);
    std::vector<float> pre(n * 4), post(n * 4), comb(n * 16);
    report(
        "mixes", static_cast<double>(fn.size()) * 4,
        2.0 * static_cast<double>(fn.size()) * static_cast<double>(rows_), [&] {
          ops_->mixes({streams_.data(), row_index_, fn.data(), base.data(), scale.data(), kHidden,
                       kCopies, 20, 1e-6f, 1e-20f, pre.data(), post.data(), comb.data()});
        });
    report("collapse", 0, 0, [&] {
      ops_->collapse({streams_.data(), pre.data(), row_index_, kHidden, kCopies, out_.data()});
    });
    report("expand", 0, 0, [&] {
      ops_->expand(
          {wide_.data(), post.data(), comb.data(), row_index_, kHidden, kCopies, streams_.data()});
    });
    const std::vector<Bf16> weight = random_rows(kHidden, 3);
    report("norm 5120", 0, 0, [&] {
      ops_->rms_norm({wide_.data(), weight.data(), rows_, kHidden, 1e-20f, out_.data()});
    });
    std::vector<float> frequencies(32, 0.01f), cosine(n * 32), sine(n * 32);
    report("rope table", 0, 0,
           [&] { ops_->rope_table({positions_, frequencies, cosine.data(), sine.data()}); });
    report("rope 64 heads", 0, 0, [&] {
      ops_->rope({out_.data(), rows_, kHeads, kHeadDim, 64, cosine.data(), sine.data(), row_index_,
                  false});
    });
    report("stage window", 0, 0, [&] { ops_->stage_window({wide_.data(), row_index_, 0, view_}); });
    const std::vector<Bf16> kv = random_rows(rows_ * 5 * kHidden, 4),
                            q = random_rows(4 * kHidden, 5);
    const std::vector<uint8_t> is_image(n);
    report("engram inject", 0, 0, [&] {
      ops_->engram_inject({kv.data(), q.data(), q.data(), row_index_, is_image.data(), kHidden,
                           kCopies, 1e-20f, streams_.data(), nullptr});
    });
  }

  void build_kv() {
    KvLayout& layout = view_.layout;
    layout.head_dim = kHeadDim, layout.index_head_dim = kIndexDim, layout.window = kWindow;
    layout.num_layers = 1, layout.tokens_per_page = 256;
    source_ = {.layer = 0,
               .ratio = 1,
               .rows_per_page = 256,
               .codes_offset = 0,
               .scales_offset = 256 * 256,
               .key_codes_offset = 256 * 288,
               .key_scales_offset = 256 * 352};
    layout.page_bytes = 256 * 356;
    const int64_t pages = (context_ + 255) / 256;
    pages_.resize(static_cast<size_t>(pages * layout.page_bytes));
    fill_random(pages_.data(), pages_.size(), 21);
    for (int64_t p = 0; p < pages; ++p) {
      uint8_t* page = pages_.data() + p * layout.page_bytes;
      std::fill_n(page + source_.scales_offset, 256 * 32, uint8_t{0x38});
      std::fill_n(page + source_.key_scales_offset, 256 * 4, uint8_t{126});
    }
    ring_.resize(static_cast<size_t>(kWindow * layout.window_row_bytes()));
    staged_.resize(static_cast<size_t>(rows_ * layout.window_row_bytes()));
    for (auto* rows : {&ring_, &staged_}) {
      fill_random(rows->data(), rows->size(), 22);
      for (size_t at = 0; at < rows->size(); at += 528) {
        for (size_t i = 0; i < 512; ++i) (*rows)[at + i] &= 0xB7;
        std::fill_n(rows->data() + at + 512, 16, uint8_t{127});
      }
    }
    page_numbers_.resize(static_cast<size_t>(pages));
    std::iota(page_numbers_.begin(), page_numbers_.end(), 0);
    item_ = {.slot = 0,
             .first_row = 0,
             .num_rows = static_cast<int32_t>(rows_),
             .position = context_ - rows_,
             .pages = page_numbers_.data()};
    view_.pages = pages_.data(), view_.ring = ring_.data(), view_.staged = staged_.data();
    view_.rows_max = static_cast<int32_t>(rows_), view_.items = &item_;
    selected_.resize(static_cast<size_t>(rows_ * kTopK));
    num_selected_.resize(static_cast<size_t>(rows_));
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t visible = positions_[static_cast<size_t>(r)] + 1,
                    count = std::min(visible, kTopK);
      num_selected_[static_cast<size_t>(r)] = static_cast<int32_t>(count);
      for (int64_t j = 0; j < count; ++j) {
        selected_[static_cast<size_t>(r * kTopK + j)] = static_cast<int32_t>(j * visible / count);
      }
    }
  }

  void attention() {
    const std::vector<float> sink(kHeads, 0.5f);
    const double keys = std::min<double>(static_cast<double>(context_), kTopK) + kWindow;
    report("attention", 0, 4.0 * keys * kHeads * kHeadDim * static_cast<double>(rows_), [&] {
      ops_->attention({wide_.data(), row_index_, positions_.data(), items_.data(), 0, kHeads,
                       &source_, selected_.data(), num_selected_.data(), kTopK, sink.data(), view_,
                       out_.data()});
    });
  }

  void index() {
    const std::vector<Bf16> weights = random_rows(rows_ * kIndexHeads, 31);
    std::vector<int32_t> pool(static_cast<size_t>(rows_ * 2048)),
        num_pool(static_cast<size_t>(rows_));
    report("index select", static_cast<double>(context_) * 68,
           2.0 * static_cast<double>(context_ * kIndexHeads * kIndexDim * rows_), [&] {
             ops_->index_select(
                 {wide_.data(), weights.data(), row_index_, positions_.data(), items_.data(),
                  source_, view_, kIndexHeads, kTopK, selected_.data(), num_selected_.data(),
                  IndexSelectArgs::Pool::kFill, 8, 2048, pool.data(), num_pool.data(), nullptr, 0});
           });
  }

  void report(std::string_view name, double bytes, double operations,
              const std::function<void()>& work) {
    work();
    double best = 1e9;
    const double until = now_seconds() + 0.25;
    for (int i = 0; i < 3 || (i < 50 && now_seconds() < until); ++i) {
      const double start = now_seconds();
      work();
      best = std::min(best, now_seconds() - start);
    }
    last_ = best;
    if (!is_printing_) return;
    fmt::print("{:<22}{:>12.1f}{:>9.1f}{:>10.1f}\n", name, best * 1e6, bytes / best / 1e9,
               operations / best / 1e9);
  }
  void total_line() { fmt::print("rows {}, context {}\n", rows_, context_); }

  std::unique_ptr<Ops> ops_;
  int64_t rows_, context_;
  std::vector<Bf16> wide_, out_, streams_;
  std::vector<int32_t> row_index_, items_, page_numbers_, selected_, num_selected_;
  std::vector<int64_t> positions_;
  std::vector<uint8_t> pages_, ring_, staged_;
  SourceLayout source_;
  KvView view_;
  ItemView item_;
  bool is_printing_ = false;
  double last_ = 0;  // seconds of what was measured last
};

}  // namespace

void print_op_profile(ThreadPool& pool, Isa isa, int64_t rows, int64_t context) {
  fmt::print("{} kernels, {} threads\n", name_of(isa), pool.num_threads());
  Layer(pool, isa, rows, context).run();
}

double index_seconds(ThreadPool& pool, Isa isa, int64_t keys) {
  return Layer(pool, isa, 1, keys).index_seconds();
}

}  // namespace yeoul::speed
