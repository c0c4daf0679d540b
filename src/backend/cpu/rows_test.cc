// Norms, rotation, mHC and Engram injection at the release's widths against float64.

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/test_values.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {
namespace {

constexpr int64_t kHidden = 5120, kCopies = 4;
constexpr double kBf16 = 0x1p-8;  // one ulp of a BF16 value is at most this share of it

class Rows : public testing::TestWithParam<Accumulate> {
 protected:
  std::unique_ptr<Ops> make_ops(ThreadPool& pool) {
    return make_cpu_ops(
        GetParam(), pool,
        {.linear_inputs_max = kHidden, .hidden = kHidden, .copies = kCopies, .head_dim = 64});
  }
};

double value(Bf16 x) {
  return static_cast<double>(to_float(x));
}

TEST_P(Rows, rms_norm_divides_by_the_root_of_the_mean_square) {
  ThreadPool one(1), three(3);
  const std::vector<Bf16> x = test_bf16(1, 5 * kHidden, 30), weight = test_bf16(2, kHidden, 2);
  std::vector<Bf16> out(x.size());
  make_ops(one)->rms_norm({x.data(), weight.data(), 5, kHidden, 1e-20f, out.data()});
  for (size_t r = 0; r < 5; ++r) {
    double square = 0;
    for (size_t d = 0; d < kHidden; ++d)
      square += value(x[r * kHidden + d]) * value(x[r * kHidden + d]);
    for (size_t d = 0; d < kHidden; ++d) {
      const double expected =
          value(weight[d]) * value(x[r * kHidden + d]) / std::sqrt(square / kHidden);
      ASSERT_LE(std::fabs(value(out[r * kHidden + d]) - expected), kBf16 * std::fabs(expected));
    }
  }
  std::vector<Bf16> in_place = x;
  make_ops(three)->rms_norm({in_place.data(), weight.data(), 5, kHidden, 1e-20f, in_place.data()});
  EXPECT_EQ(in_place, out);
  std::vector<Bf16> alone(kHidden);
  make_ops(three)->rms_norm(
      {x.data() + 3 * kHidden, weight.data(), 1, kHidden, 1e-20f, alone.data()});
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), out.begin() + 3 * kHidden));
  // A row of zeros has a root of eps and stays zero.
  const std::vector<Bf16> zeros(kHidden);
  make_ops(one)->rms_norm({zeros.data(), weight.data(), 1, kHidden, 1e-20f, alone.data()});
  for (const Bf16 y : alone) ASSERT_EQ(to_float(y), 0);
}

TEST_P(Rows, inverse_rotation_undoes_rotation_and_leaves_the_other_channels) {
  ThreadPool pool(2);
  const auto ops = make_ops(pool);
  const std::vector<Bf16> x = test_bf16(3, 3 * 2 * 96);
  const std::vector<float> frequencies = test_floats(4, 16);
  const std::vector<int64_t> positions = {0, 77, 100000};
  std::vector<float> cosine(3 * 16), sine(3 * 16);
  ops->rope_table({positions, frequencies, cosine.data(), sine.data()});
  std::vector<Bf16> y = x;
  const std::vector<int32_t> rows = first_rows(3);
  ops->rope({y.data(), 3, 2, 96, 32, cosine.data(), sine.data(), rows, false});
  for (size_t i = 0; i < x.size(); ++i) {
    const bool is_rotated = i % 96 >= 64;
    const bool is_turned = is_rotated && i >= 2 * 96;  // position 0 turns nothing
    EXPECT_TRUE(is_turned || y[i] == x[i]) << i;
  }
  EXPECT_NE(y, x);
  ops->rope({y.data(), 3, 2, 96, 32, cosine.data(), sine.data(), rows, true});
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(value(y[i]), value(x[i]), 0.02);
}

struct Mixes {
  std::vector<float> pre, post, comb;
};

Mixes run_mixes(Ops& ops, const std::vector<Bf16>& streams, int64_t count,
                const std::vector<float>& fn, const std::vector<float>& base,
                const std::vector<float>& scale) {
  Mixes out{std::vector<float>(static_cast<size_t>(count * 4), NAN),
            std::vector<float>(static_cast<size_t>(count * 4), NAN),
            std::vector<float>(static_cast<size_t>(count * 16), NAN)};
  ops.mixes({streams.data(), first_rows(count), fn.data(), base.data(), scale.data(), kHidden, 4,
             20, 1e-6f, 1e-20f, out.pre.data(), out.post.data(), out.comb.data()});
  return out;
}

TEST_P(Rows, mixes_of_the_release_width_are_doubly_stochastic_and_follow_the_formula) {
  ThreadPool one(1), three(3);
  const std::vector<Bf16> streams = test_bf16(5, 3 * kCopies * kHidden, 3);
  const std::vector<float> fn = test_floats(6, 24 * kCopies * kHidden, 0.02);
  const std::vector<float> base = test_floats(7, 24), scale = {0.5f, 0.4f, 0.6f};
  const Mixes found = run_mixes(*make_ops(one), streams, 3, fn, base, scale);
  for (size_t r = 0; r < 3; ++r) {
    const Bf16* v = streams.data() + r * kCopies * kHidden;
    double square = 0;
    for (size_t k = 0; k < kCopies * kHidden; ++k) square += value(v[k]) * value(v[k]);
    for (size_t o = 0; o < 8; ++o) {
      double dot = 0;
      for (size_t k = 0; k < kCopies * kHidden; ++k) {
        dot += value(v[k]) * static_cast<double>(fn[o * kCopies * kHidden + k]);
      }
      const double m =
          dot / std::sqrt(square / (kCopies * kHidden)) * static_cast<double>(scale[o / 4]) +
          static_cast<double>(base[o]);
      const double sigmoid = 1 / (1 + std::exp(-m));
      const float given = o < 4 ? found.pre[4 * r + o] : found.post[4 * r + o - 4];
      EXPECT_NEAR(static_cast<double>(given), o < 4 ? sigmoid + 1e-6 : 2 * sigmoid, 2e-6);
    }
    for (size_t j = 0; j < 4; ++j) {
      double row = 0, column = 0;
      for (size_t k = 0; k < 4; ++k) {
        row += static_cast<double>(found.comb[16 * r + 4 * j + k]);
        column += static_cast<double>(found.comb[16 * r + 4 * k + j]);
      }
      EXPECT_NEAR(row, 1, 1e-3);
      EXPECT_NEAR(column, 1, 1e-5);
    }
  }
  const Mixes threaded = run_mixes(*make_ops(three), streams, 3, fn, base, scale);
  EXPECT_EQ(threaded.pre, found.pre);
  EXPECT_EQ(threaded.comb, found.comb);
}

TEST_P(Rows, collapse_and_expand_are_sums_over_copies) {
  ThreadPool pool(1);
  const auto ops = make_ops(pool);
  for (const int64_t hidden : {int64_t{33}, kHidden}) {
    const std::vector<Bf16> streams = test_bf16(8, 2 * kCopies * hidden, 3);
    const std::vector<Bf16> o = test_bf16(9, hidden);
    const std::vector<float> pre = test_floats(10, 2 * kCopies),
                             post = test_floats(11, 2 * kCopies);
    const std::vector<float> comb = test_floats(12, 2 * kCopies * kCopies);
    const std::vector<int32_t> second = {1};
    std::vector<Bf16> collapsed(static_cast<size_t>(hidden)), expanded = streams;
    ops->collapse({streams.data(), pre.data(), second, hidden, kCopies, collapsed.data()});
    ops->expand({o.data(), post.data(), comb.data(), second, hidden, kCopies, expanded.data()});
    const Bf16* x = streams.data() + kCopies * hidden;
    for (int64_t d = 0; d < hidden; ++d) {
      double sum = 0;
      for (int64_t c = 0; c < kCopies; ++c) {
        sum += static_cast<double>(pre[static_cast<size_t>(4 + c)]) * value(x[c * hidden + d]);
      }
      ASSERT_NEAR(value(collapsed[static_cast<size_t>(d)]), sum, kBf16 * std::fabs(sum) + 1e-6);
      for (int64_t k = 0; k < kCopies; ++k) {
        double mixed = static_cast<double>(post[static_cast<size_t>(4 + k)]) *
                       value(o[static_cast<size_t>(d)]);
        for (int64_t j = 0; j < kCopies; ++j) {
          mixed += static_cast<double>(comb[static_cast<size_t>(16 + 4 * j + k)]) *
                   value(x[j * hidden + d]);
        }
        const Bf16 found = expanded[static_cast<size_t>((kCopies + k) * hidden + d)];
        ASSERT_NEAR(value(found), mixed, kBf16 * std::fabs(mixed) + 1e-6);
      }
    }
    // The row that is not at hand stays.
    EXPECT_TRUE(std::equal(streams.begin(), streams.begin() + kCopies * hidden, expanded.begin()));
  }
}

TEST_P(Rows, engram_adds_a_gated_value_outside_of_images) {
  ThreadPool one(1), three(3);
  const std::vector<Bf16> streams = test_bf16(13, 3 * kCopies * kHidden, 2);
  const std::vector<Bf16> kv = test_bf16(14, 2 * (kCopies + 1) * kHidden);
  const std::vector<Bf16> q_weight = test_bf16(15, kCopies * kHidden);
  const std::vector<Bf16> k_weight = test_bf16(16, kCopies * kHidden);
  const std::vector<int32_t> rows = {0, 2};
  const std::vector<uint8_t> is_image = {0, 0, 1};
  const auto run = [&](ThreadPool& pool, std::vector<float>& gates) {
    std::vector<Bf16> out = streams;
    make_ops(pool)->engram_inject({kv.data(), q_weight.data(), k_weight.data(), rows,
                                   is_image.data(), kHidden, kCopies, 1e-20f, out.data(),
                                   gates.data()});
    return out;
  };
  std::vector<float> gates(2 * kCopies, NAN), again(2 * kCopies, NAN);
  const std::vector<Bf16> out = run(one, gates);
  EXPECT_EQ(run(three, again), out);
  EXPECT_EQ(again, gates);
  for (size_t c = 0; c < kCopies; ++c) {
    double x_square = 0, k_square = 0, product = 0;
    for (size_t d = 0; d < kHidden; ++d) {
      const double x = value(streams[c * kHidden + d]), k = value(kv[c * kHidden + d]);
      x_square += x * x, k_square += k * k;
      product += x * k * value(q_weight[c * kHidden + d]) * value(k_weight[c * kHidden + d]);
    }
    const double g = product / std::sqrt(x_square / kHidden * (k_square / kHidden) * kHidden);
    const double gate =
        1 / (1 + std::exp(-std::copysign(std::sqrt(std::max(std::fabs(g), 1e-6)), g)));
    EXPECT_NEAR(static_cast<double>(gates[c]), gate, 1e-5);
    EXPECT_EQ(gates[kCopies + c], 0);
    for (size_t d = 0; d < kHidden; ++d) {
      const double sum = value(streams[c * kHidden + d]) + gate * value(kv[kCopies * kHidden + d]);
      ASSERT_NEAR(value(out[c * kHidden + d]), sum, kBf16 * std::fabs(sum) + 1e-4);
    }
  }
  // Rows that are not at hand, and rows inside an image, keep every bit.
  EXPECT_TRUE(std::equal(streams.begin() + kCopies * kHidden, streams.end(),
                         out.begin() + kCopies * kHidden));
}

TEST_P(Rows, a_pair_is_pooled_by_the_softmax_of_its_scores) {
  ThreadPool pool(1);
  const std::vector<float> c0 = test_floats(20, 64), s0 = test_floats(21, 64, 20);
  const std::vector<float> c1 = test_floats(22, 64), s1 = test_floats(23, 64, 20);
  const std::vector<CompressPair> pairs = {{c0.data(), s0.data(), c1.data(), s1.data()}};
  std::vector<Bf16> out(64);
  make_ops(pool)->compress_pairs({pairs, 64, out.data()});
  for (size_t d = 0; d < 64; ++d) {
    const double w = 1 / (1 + std::exp(static_cast<double>(s1[d]) - static_cast<double>(s0[d])));
    const double expected = w * static_cast<double>(c0[d]) + (1 - w) * static_cast<double>(c1[d]);
    EXPECT_NEAR(value(out[d]), expected, kBf16 * std::fabs(expected) + 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, Rows, testing::Values(Accumulate::kFloat, Accumulate::kDouble),
                         [](const auto& path) {
                           return path.param == Accumulate::kFloat ? "float" : "exact";
                         });

}  // namespace
}  // namespace yeoul::cpu
