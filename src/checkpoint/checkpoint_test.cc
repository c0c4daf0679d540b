#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

namespace yeoul {
namespace {

using testing::HasSubstr;

class EmbeddedCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Checkpoint::open("models/tiny-random");
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint_ = std::move(*opened);
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
};

TEST_F(EmbeddedCheckpoint, opens_with_the_totals_of_its_files) {
  const CheckpointTotals& totals = checkpoint_->totals();
  EXPECT_EQ(totals.num_tensors, 1328);
  EXPECT_EQ(totals.num_bytes, 4'362'743u);
  EXPECT_EQ(checkpoint_->shards().size(), 6u);
  EXPECT_EQ(checkpoint_->tensors().size(), 1328u);
  EXPECT_EQ(checkpoint_->directory(), "models/tiny-random");
  EXPECT_EQ(checkpoint_->config().hidden_size, 96);
  uint64_t by_owner = 0;
  for (const auto& [owner, num_bytes] : totals.bytes_by_owner) by_owner += num_bytes;
  uint64_t by_dtype = 0;
  for (const auto& [dtype, num_bytes] : totals.bytes_by_dtype) by_dtype += num_bytes;
  EXPECT_EQ(by_owner, totals.num_bytes);
  EXPECT_EQ(by_dtype, totals.num_bytes);
  // 434 and 606 rows of 64 values and 2 scales.
  EXPECT_EQ(totals.bytes_by_owner.at("engram_tables"), (434u + 606u) * 66u);
}

TEST_F(EmbeddedCheckpoint, finds_tensors_by_name_with_their_place) {
  const auto entry = checkpoint_->find("layers.1.engram.embed.scale");
  ASSERT_TRUE(entry);
  EXPECT_EQ((*entry)->name, "layers.1.engram.embed.scale");
  EXPECT_EQ((*entry)->dtype, Dtype::kF8E8m0);
  EXPECT_EQ((*entry)->shape, (std::vector<int64_t>{434, 2}));
  EXPECT_EQ((*entry)->num_bytes, 868u);
  EXPECT_EQ((*entry)->shard, 4);
  EXPECT_EQ((*entry)->offset, 8u + 592 + 27776);

  const auto missing = checkpoint_->find("layers.99.attn.wq_a.weight");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.error().message,
            "layers.99.attn.wq_a.weight: not in 6 shards of models/tiny-random");
}

TEST_F(EmbeddedCheckpoint, reads_a_tensor_whole_and_in_parts) {
  const TensorEntry& entry = **checkpoint_->find("norm.weight");
  std::vector<std::byte> whole(entry.num_bytes);
  ASSERT_TRUE(checkpoint_->read(entry, whole));
  std::vector<std::byte> tail(50);
  ASSERT_TRUE(checkpoint_->read_at(entry, entry.num_bytes - 50, tail));
  EXPECT_EQ(std::memcmp(tail.data(), whole.data() + entry.num_bytes - 50, 50), 0);
  // Norm weights of this checkpoint are 1 + 0.2 g with |g| < 3.47: BF16 values in (0.3, 1.7).
  for (size_t i = 0; i < whole.size(); i += 2) {
    uint16_t bits = 0;
    std::memcpy(&bits, &whole[i], sizeof(bits));
    const float value = std::bit_cast<float>(uint32_t{bits} << 16);
    EXPECT_GT(value, 0.3f);
    EXPECT_LT(value, 1.7f);
  }
}

TEST_F(EmbeddedCheckpoint, a_read_outside_the_tensor_is_a_programmer_error) {
  const TensorEntry& entry = **checkpoint_->find("norm.weight");
  std::vector<std::byte> into(entry.num_bytes);
  EXPECT_DEATH((void)checkpoint_->read_at(entry, 1, into), "norm.weight: bytes 1..193 of 192");
  into.resize(10);
  EXPECT_DEATH((void)checkpoint_->read(entry, into), "192 bytes into a buffer of 10");
}

TEST(Checkpoint, a_folder_without_a_checkpoint_is_not_found) {
  const auto checkpoint = Checkpoint::open("src");
  ASSERT_FALSE(checkpoint);
  EXPECT_EQ(checkpoint.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(checkpoint.error().message, HasSubstr("src/config.json: cannot open"));
}

}  // namespace
}  // namespace yeoul
