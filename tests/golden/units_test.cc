// Single operations against the reference's unit vectors (README.md): formats, quantisers, rotation
// with the release's tables, mHC, attention over several slot blocks, experts, Engram addresses.

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "checkpoint/release_config.h"
#include "model/engram_hash.h"
#include "model/rope_frequencies.h"
#include "support/golden_files.h"
#include "support/model_harness.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul {
namespace {

using Arrays = std::map<std::string, golden::Array>;

Arrays unit(const std::string& name) {
  return golden::read_safetensors("tests/golden/data/units/" + name + ".safetensors");
}

std::vector<float> floats_of(const golden::Array& array) {
  std::vector<float> values(array.values.size());
  std::transform(array.values.begin(), array.values.end(), values.begin(),
                 [](double value) { return static_cast<float>(value); });
  return values;
}

std::vector<Bf16> bf16_of(const golden::Array& array) {
  std::vector<Bf16> values(array.values.size());
  std::transform(array.values.begin(), array.values.end(), values.begin(),
                 [](double value) { return to_bf16(static_cast<float>(value)); });
  return values;
}

// Equal as numbers: +0 and -0 are.
template <typename Value>
void expect_equal(const std::vector<Value>& found, const golden::Array& expected, const char* what,
                  double tolerance = 0) {
  ASSERT_EQ(found.size(), expected.values.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    double value = 0;
    if constexpr (std::is_same_v<Value, Bf16>) {
      value = static_cast<double>(to_float(found[i]));
    } else {
      value = static_cast<double>(found[i]);
    }
    ASSERT_LE(std::fabs(value - expected.values[i]), tolerance) << what << " at " << i;
  }
}

TEST(UnitGolden, number_formats_round_and_decode_as_the_reference) {
  const Arrays data = unit("formats");
  for (size_t code = 0; code < 256; ++code) {
    if (code % 128 == 127) continue;  // NaN, stored as 0
    EXPECT_EQ(e4m3_to_float(static_cast<uint8_t>(code)), data.at("e4m3_table").values[code]);
  }
  for (size_t code = 0; code < 16; ++code) {
    EXPECT_EQ(kE2m1Values[code], data.at("e2m1_table").values[code]);
  }
  std::vector<float> bf16, e4m3, e2m1;
  for (const float x : floats_of(data.at("x"))) {
    bf16.push_back(round_bf16(x));
    e4m3.push_back(e4m3_to_float(to_e4m3(x)));
    e2m1.push_back(kE2m1Values[to_e2m1(x)]);
  }
  expect_equal(bf16, data.at("x_bf16"), "BF16");
  expect_equal(e4m3, data.at("x_e4m3"), "e4m3");
  expect_equal(e2m1, data.at("x_e2m1"), "e2m1");
}

TEST(UnitGolden, the_three_quantisers_give_the_reference_values) {
  const Arrays data = unit("quant");
  const std::vector<float> x = floats_of(data.at("x"));
  constexpr size_t kWidth = 128;
  std::vector<float> fp8 = x, stored(x.size()), index(x.size()), compressed(x.size());
  for (size_t at = 0; at < x.size(); at += kWidth) {
    const std::span<const float> row(x.data() + at, kWidth);
    const auto part = [at](std::vector<float>& all) { return std::span(all).subspan(at, kWidth); };
    uint8_t codes[kWidth], scales[kWidth / 16];
    quantize_fp8(part(fp8));
    encode_fp8_row(row, {codes, scales});
    decode_fp8_row(codes, scales, part(stored));
    encode_index_row(row, codes, scales);
    decode_index_row(codes, scales, part(index));
    encode_compressed_row(row, codes, scales);
    decode_compressed_row(codes, scales, part(compressed));
  }
  expect_equal(fp8, data.at("fp8_ue8m0_32"), "FP8 inputs");
  expect_equal(stored, data.at("fp8_ue8m0_32"), "FP8 window rows");
  expect_equal(index, data.at("fp4_ue8m0_32"), "FP4 index rows");
  expect_equal(compressed, data.at("fp4_e4m3_16"), "FP4 compressed rows");
}

// Operations of both paths, sized for `config`.
class OpsOfBothPaths : public testing::TestWithParam<Accumulate> {
 protected:
  std::unique_ptr<Ops> make_ops(OpsLimits limits) {
    return make_cpu_ops(GetParam(), pool_, limits);
  }
  std::unique_ptr<Ops> make_ops(const ModelConfig& config) {
    return make_ops(Forward::ops_limits(config, {}));
  }
  bool is_exact() const { return GetParam() == Accumulate::kDouble; }

  ThreadPool pool_{1};
};

TEST_P(OpsOfBothPaths, rotation_with_the_release_tables_is_equal_up_to_the_last_position) {
  const Arrays data = unit("rope");
  const ModelConfig config = release_config();
  const std::unique_ptr<Ops> ops = make_ops({.hidden = 64, .copies = 1, .head_dim = 64});
  std::vector<int64_t> positions;
  for (const double p : data.at("positions").values) positions.push_back(static_cast<int64_t>(p));
  ASSERT_EQ(positions.back(), 1'048'575);
  std::vector<int32_t> rows(positions.size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto rotated = [&](const std::vector<float>& frequencies, bool inverse) {
    std::vector<float> cosine(rows.size() * 32), sine(cosine.size());
    ops->rope_table({positions, frequencies, cosine.data(), sine.data()});
    std::vector<Bf16> x = bf16_of(data.at("x"));
    ops->rope({x.data(), static_cast<int64_t>(rows.size()), 1, 64, 64, cosine.data(), sine.data(),
               rows, inverse});
    return x;
  };
  const std::vector<float> window = window_rope_frequencies(config);
  const std::vector<float> compressed = compressed_rope_frequencies(config);
  expect_equal(window, data.at("freq_main"), "frequencies of window-only layers");
  expect_equal(compressed, data.at("freq_compressed"), "frequencies with YaRN");
  expect_equal(rotated(window, false), data.at("y_main"), "window-only layers");
  expect_equal(rotated(compressed, false), data.at("y_compressed"), "compressed layers");
  expect_equal(rotated(compressed, true), data.at("y_compressed_inverse"), "inverse");
}

TEST_P(OpsOfBothPaths, hyper_connections_mix_collapse_and_expand_as_the_reference) {
  const Arrays data = unit("mhc_layer0_attn");
  const ModelHarness model({});
  const ModelConfig& c = model.config();
  const std::unique_ptr<Ops> ops = make_ops(c);
  const HyperConnectionWeights& w = model.weights().layers[0].hc_attn;
  std::vector<Bf16> streams = bf16_of(data.at("X"));
  const auto n = static_cast<size_t>(data.at("X").rows());
  std::vector<int32_t> rows(n);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> pre(n * 4, NAN), post(n * 4, NAN), comb(n * 16, NAN);
  ops->mixes({streams.data(), rows, w.fn, w.base, w.scale, c.hidden_size, c.hc_mult,
              c.hc_sinkhorn_iters, static_cast<float>(c.hc_eps), static_cast<float>(c.rms_norm_eps),
              pre.data(), post.data(), comb.data()});
  const double tolerance = is_exact() ? 1e-7 : 2e-6;
  expect_equal(pre, data.at("pre"), "pre", tolerance);
  expect_equal(post, data.at("post"), "post", tolerance);
  expect_equal(comb, data.at("comb"), "comb", tolerance);
  // Collapse and expand with the reference's own coefficients.
  std::vector<Bf16> collapsed(n * static_cast<size_t>(c.hidden_size));
  const std::vector<float> given_pre = floats_of(data.at("pre"));
  ops->collapse(
      {streams.data(), given_pre.data(), rows, c.hidden_size, c.hc_mult, collapsed.data()});
  const std::vector<float> given_post = floats_of(data.at("post"));
  const std::vector<float> given_comb = floats_of(data.at("comb"));
  const std::vector<Bf16> o = bf16_of(data.at("o"));
  ops->expand({o.data(), given_post.data(), given_comb.data(), rows, c.hidden_size, c.hc_mult,
               streams.data()});
  // The float path may round a BF16 tie the other way: one ulp of values up to 8.
  const double ulp = is_exact() ? 0 : 0.03125;
  expect_equal(collapsed, data.at("collapsed"), "collapsed", ulp);
  expect_equal(streams, data.at("expanded"), "expanded", ulp);
}

// One query row over `count` keys, all of them in the window.
class AttentionUnit {
 public:
  AttentionUnit(const Arrays& data, int32_t count)
      : query_(bf16_of(data.at("q"))),
        keys_(bf16_of(data.at("keys"))),
        sink_(floats_of(data.at("sink"))),
        width_(static_cast<int32_t>(data.at("keys").width())),
        heads_(static_cast<int32_t>(data.at("q").rows())),
        count_(count) {}

  OpsLimits limits() const {
    return {.hidden = width_, .copies = 1, .heads = heads_, .head_dim = width_, .window = count_};
  }
  std::vector<Bf16> run(Ops& ops) {
    KvView view;
    view.layout = {.head_dim = width_, .window = count_, .num_layers = 1};
    std::vector<uint8_t> staged(static_cast<size_t>(count_ * view.layout.window_row_bytes()));
    view.staged = staged.data();
    view.rows_max = count_;
    const ItemView item{.num_rows = count_};
    view.items = &item;
    std::vector<int32_t> rows(static_cast<size_t>(count_));
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<int64_t> positions(rows.begin(), rows.end());
    const std::vector<int32_t> item_of(rows.size());
    ops.stage_window({keys_.data(), rows, 0, view});
    std::vector<Bf16> out(query_.size());
    const std::vector<int32_t> last = {count_ - 1};
    ops.attention({query_.data(), last, positions.data(), item_of.data(), 0, heads_, nullptr,
                   nullptr, nullptr, 0, sink_.data(), view, out.data()});
    return out;
  }

 private:
  std::vector<Bf16> query_, keys_;
  std::vector<float> sink_;
  int32_t width_, heads_, count_;
};

TEST_P(OpsOfBothPaths, attention_goes_over_its_keys_in_blocks_of_64) {
  const Arrays data = unit("attention");
  // One BF16 ulp of outputs below 1, where a numerator rounded the other way.
  const double ulp = is_exact() ? 0 : 0.00390625;
  AttentionUnit all(data, 150);
  expect_equal(all.run(*make_ops(all.limits())), data.at("out_blocks_of_64"), "150 keys", ulp);
  AttentionUnit one(data, 1);
  expect_equal(one.run(*make_ops(one.limits())), data.at("out_one_key"), "one key", ulp);
  // The data can tell blocks apart from a single pass.
  EXPECT_NE(data.at("out_blocks_of_64").values, data.at("out_single_block").values);
}

TEST_P(OpsOfBothPaths, routing_and_experts_give_the_reference_output) {
  const Arrays data = unit("moe_layer0");
  const ModelHarness model({});
  const ModelConfig& c = model.config();
  const LayerWeights& w = model.weights().layers[0];
  const std::unique_ptr<Ops> ops = make_ops(c);
  const std::vector<Bf16> x = bf16_of(data.at("x"));
  const int64_t n = data.at("x").rows(), hidden = c.hidden_size;
  const int32_t chosen = c.num_experts_per_tok;
  std::vector<int32_t> rows(static_cast<size_t>(n));
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<uint8_t> is_image;
  for (const double flag : data.at("image").values) {
    is_image.push_back(static_cast<uint8_t>(flag));
  }
  std::vector<int32_t> experts(static_cast<size_t>(n * chosen), -1);
  std::vector<float> weights(experts.size(), NAN);
  std::vector<float> scores(static_cast<size_t>(n * c.n_routed_experts), NAN);
  ops->route({w.gate.weight, w.gate_bias, w.gate_bias_vl, c.gate_temp, x.data(), n, rows,
              is_image.data(), chosen, c.norm_topk_prob, c.routed_scaling_factor, experts.data(),
              weights.data(), scores.data()});
  const double tolerance = is_exact() ? 0 : 1e-6;
  expect_equal(scores, data.at("scores"), "scores", tolerance);
  expect_equal(experts, data.at("experts"), "experts");
  expect_equal(weights, data.at("weights"), "weights", tolerance);

  const auto run = [&](const ExpertWeights& expert, std::span<const int32_t> from,
                       std::span<const int32_t> places, const float* by_place, Bf16* out) {
    ops->expert({expert, x.data(), from, places, by_place, c.swiglu_limit, out});
  };
  const double ulp = is_exact() ? 0 : 0.001;
  std::vector<Bf16> first(x.size()), shared(x.size()), out(x.size());
  std::vector<Bf16> routed(x.size() * static_cast<size_t>(chosen));
  const Result<ExpertWeights> expert0 = model.weights().experts().fetch(0, 0);
  ASSERT_TRUE(expert0);
  run(*expert0, rows, rows, nullptr, first.data());
  expect_equal(first, data.at("expert0"), "expert 0", ulp);
  for (int32_t place = 0; place < n * chosen; ++place) {
    const int32_t row = place / chosen;
    const auto weight = model.weights().experts().fetch(0, experts[static_cast<size_t>(place)]);
    ASSERT_TRUE(weight);
    run(*weight, {&row, 1}, {&place, 1}, weights.data(), routed.data());
  }
  run(w.shared, rows, rows, nullptr, shared.data());
  ops->combine(
      {routed.data(), experts.data(), shared.data(), n, hidden, chosen, out.data(), nullptr});
  expect_equal(out, data.at("out"), "out", ulp);
}

INSTANTIATE_TEST_SUITE_P(Paths, OpsOfBothPaths,
                         testing::Values(Accumulate::kFloat, Accumulate::kDouble),
                         [](const auto& path) {
                           return path.param == Accumulate::kFloat ? "float" : "exact";
                         });

// Any map with the release's number of classes; the real one is derived from the vocabulary.
EngramHash release_hash(const ModelConfig& config) {
  std::vector<int32_t> map(static_cast<size_t>(config.vocab_size));
  for (size_t token = 0; token < map.size(); ++token)
    map[token] = static_cast<int32_t>(token % 99092);
  Result<EngramHash> hash = EngramHash::create(config, std::move(map));
  EXPECT_TRUE(hash.has_value());
  return std::move(*hash);
}

TEST(UnitGolden, engram_rows_of_the_release_are_equal) {
  const Arrays data = unit("engram_release_hash");
  const EngramHash hash = release_hash(release_config());
  std::vector<int32_t> ids;
  for (const double id : data.at("compressed_ids").values) ids.push_back(static_cast<int32_t>(id));
  const golden::Array& expected = data.at("rows");
  const auto columns = static_cast<size_t>(hash.num_columns());
  ASSERT_EQ(columns, 24u);
  const auto history = static_cast<size_t>(hash.history_len());
  std::vector<int64_t> rows(columns);
  for (size_t p = 0; p < ids.size(); ++p) {
    const size_t begin = p < history ? 0 : p - history;
    for (int32_t layer = 0; layer < 2; ++layer) {
      hash.rows(layer, std::span(ids).subspan(begin, p + 1 - begin), rows);
      for (size_t c = 0; c < columns; ++c) {
        const size_t at = (2 * p + static_cast<size_t>(layer)) * columns + c;
        ASSERT_EQ(static_cast<double>(rows[c]), expected.values[at])
            << p << " " << layer << " " << c;
      }
    }
  }
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t c = 0; c < columns; ++c) {
      const size_t at = layer * columns + c;
      EXPECT_EQ(static_cast<double>(hash.primes()[layer][c]), data.at("primes").values[at]);
      EXPECT_EQ(static_cast<double>(hash.offsets()[layer][c]), data.at("offsets").values[at]);
    }
    for (size_t m = 0; m < 4; ++m) {
      EXPECT_EQ(static_cast<double>(hash.multipliers()[layer][m]),
                data.at("multipliers").values[4 * layer + m]);
    }
  }
}

// The table of model.md section 4.2.
TEST(UnitGolden, engram_constants_of_the_release_are_derived) {
  const ModelConfig config = release_config();
  const EngramHash hash = release_hash(config);
  using List = std::vector<int64_t>;
  EXPECT_EQ(hash.multipliers()[0],
            (List{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(hash.multipliers()[1],
            (List{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
  EXPECT_EQ(hash.primes()[0],
            (List{16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183,
                  16000189, 16000207, 16000211, 16000253, 16000277, 16000289, 16000307, 16000321,
                  16000339, 16000381, 16000393, 16000399, 16000403, 16000409, 16000447, 16000463}));
  EXPECT_EQ(hash.primes()[1],
            (List{16000477, 16000487, 16000499, 16000507, 16000511, 16000573, 16000609, 16000627,
                  16000667, 16000669, 16000693, 16000697, 16000711, 16000729, 16000759, 16000769,
                  16000781, 16000799, 16000813, 16000819, 16000841, 16000877, 16000879, 16000889}));
  EXPECT_EQ(hash.offsets()[0][1], 16000057);
  EXPECT_EQ(hash.offsets()[0][2], 32000136);
  EXPECT_EQ(hash.offsets()[0][3], 48000217);
  EXPECT_EQ(hash.offsets()[0][8], 128000880);
  EXPECT_EQ(hash.offsets()[0][16], 256002934);
  EXPECT_EQ(hash.offsets()[1][8], 128004290);
  EXPECT_EQ(hash.offsets()[1][16], 256009984);
  EXPECT_EQ(hash.offsets()[0].back() + hash.primes()[0].back(), 384'006'168);
  EXPECT_EQ(hash.offsets()[1].back() + hash.primes()[1].back(), 384'016'682);
}

}  // namespace
}  // namespace yeoul
