#include "model/engram_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/json.h"

namespace yeoul {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

class EngramHashes : public testing::Test {
 protected:
  void SetUp() override {
    auto config = parse_config(read_text("models/tiny-random/config.json"));
    ASSERT_TRUE(config) << config.error().message;
    config_ = std::move(*config);
    auto reference = parse_json(read_text("tests/golden/data/tiny_engram.json"));
    ASSERT_TRUE(reference);
    reference_ = std::move(*reference);
    map_ = reference_["token_map"].get<std::vector<int32_t>>();
  }

  ModelConfig config_;
  Json reference_;
  std::vector<int32_t> map_;
};

TEST_F(EngramHashes, derives_the_constants_of_the_reference) {
  const Result<EngramHash> hash = EngramHash::create(config_, map_);
  ASSERT_TRUE(hash) << hash.error().message;
  EXPECT_EQ(hash->num_layers(), 2);
  EXPECT_EQ(hash->num_columns(), 6);
  EXPECT_EQ(hash->history_len(), 3);
  using Table = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(hash->multipliers(), reference_["multipliers"].get<Table>());
  EXPECT_EQ(hash->offsets(), reference_["offsets"].get<Table>());
  Table primes;  // the reference keeps them by order
  for (const Json& layer : reference_["primes"]) {
    std::vector<int64_t>& row = primes.emplace_back();
    for (const Json& order : layer) {
      for (const Json& prime : order) row.push_back(prime.get<int64_t>());
    }
  }
  EXPECT_EQ(hash->primes(), primes);
}

TEST_F(EngramHashes, refuses_a_map_of_another_tokenizer) {
  std::vector<int32_t> short_map(map_.begin(), map_.end() - 1);
  Result<EngramHash> hash = EngramHash::create(config_, short_map);
  ASSERT_FALSE(hash);
  EXPECT_EQ(hash.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(hash.error().message.find("512"), std::string::npos) << hash.error().message;

  std::vector<int32_t> more = map_;
  more.back() = 341;  // one class more than the config states
  hash = EngramHash::create(config_, more);
  ASSERT_FALSE(hash);
  EXPECT_NE(hash.error().message.find("341"), std::string::npos) << hash.error().message;
  EXPECT_NE(hash.error().message.find("342"), std::string::npos) << hash.error().message;

  config_.engram_num_embeddings[1] += 1;
  hash = EngramHash::create(config_, map_);
  ASSERT_FALSE(hash);
  EXPECT_NE(hash.error().message.find("layers.4"), std::string::npos) << hash.error().message;
}

TEST_F(EngramHashes, an_image_position_blocks_itself_and_everything_before_it) {
  const Result<EngramHash> hash = EngramHash::create(config_, map_);
  ASSERT_TRUE(hash);
  const auto rows = [&](std::vector<int32_t> ids) {
    std::vector<int64_t> found(6);
    hash->rows(1, ids, found);
    return found;
  };
  const int32_t pad = map_[2], dead = EngramHash::kDead;
  EXPECT_EQ(rows({7, dead, 5, 9}), rows({pad, pad, 5, 9}));
  EXPECT_EQ(rows({7, 8, 5, dead}), rows({pad, pad, pad, pad}));
  EXPECT_EQ(rows({5, 9}), rows({pad, pad, 5, 9}));
  EXPECT_NE(rows({7, 8, 5, 9}), rows({7, 6, 5, 9}));
  EXPECT_EQ(hash->compressed(3, true), dead);
  EXPECT_EQ(hash->compressed(3, false), map_[3]);
}

TEST_F(EngramHashes, every_row_lies_in_the_part_of_its_column) {
  const Result<EngramHash> hash = EngramHash::create(config_, map_);
  ASSERT_TRUE(hash);
  std::vector<int64_t> rows(6);
  for (int32_t id = 0; id < 338; ++id) {
    for (int32_t layer = 0; layer < 2; ++layer) {
      hash->rows(layer, std::vector<int32_t>{id, id + 1, id + 2, id + 3}, rows);
      for (size_t c = 0; c < 6; ++c) {
        const auto l = static_cast<size_t>(layer);
        ASSERT_GE(rows[c], hash->offsets()[l][c]);
        ASSERT_LT(rows[c], hash->offsets()[l][c] + hash->primes()[l][c]);
      }
    }
  }
}

TEST(NumpyIntegers, are_deterministic_and_below_the_bound) {
  const uint64_t bound = 46539438283891;
  const std::vector<int64_t> values = numpy_integers(10007, bound, 100);
  EXPECT_EQ(values, numpy_integers(10007, bound, 100));
  EXPECT_EQ(2 * values[0] + 1, 76632096046245);
  EXPECT_LT(*std::max_element(values.begin(), values.end()), static_cast<int64_t>(bound));
  EXPECT_GE(*std::min_element(values.begin(), values.end()), 0);
  EXPECT_NE(values, numpy_integers(10008, bound, 100));
}

}  // namespace
}  // namespace yeoul
