#include "engine/sequence_image.h"

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

std::vector<uint8_t> random_bytes(uint64_t key, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<uint8_t>(counter_bits(key, i));
  return bytes;
}

// Any image, the empty one included.
SequenceImage random_image(uint64_t seed) {
  const auto size = [seed](uint64_t field, uint64_t max) {
    return static_cast<size_t>(counter_bits(mix64(seed), field) % (max + 1));
  };
  SequenceImage image;
  image.model_identity = std::string(size(0, 64), 'm');
  image.numerics_id = std::string(size(1, 20), '\0');
  image.prefill_mode = seed % 2 == 0 ? "exact" : "";
  for (size_t i = 0; i < size(2, 300); ++i)
    image.tokens.push_back(static_cast<TokenId>(counter_bits(seed + 1, i)));
  image.pages = random_bytes(seed + 2, size(3, 2000));
  image.window = random_bytes(seed + 3, size(4, 500));
  for (size_t i = 0; i < size(5, 40); ++i)
    image.window_first_valid.push_back(static_cast<int64_t>(counter_bits(seed + 4, i)));
  image.partial_pairs = random_bytes(seed + 5, size(6, 64));
  image.draft_rows = random_bytes(seed + 6, size(7, 64));
  image.seed = mix64(seed + 7);
  image.choice = static_cast<int32_t>(mix64(seed + 8));
  return image;
}

void rewrite_checksum(std::vector<uint8_t>& bytes) {
  const uint64_t sum = XXH3_64bits(bytes.data(), bytes.size() - 8);
  std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
}

TEST(SequenceImage, any_image_survives_the_round_trip) {
  EXPECT_EQ(*deserialize_sequence_image(serialize(SequenceImage{})), SequenceImage{});
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const SequenceImage image = random_image(seed);
    const Result<SequenceImage> back = deserialize_sequence_image(serialize(image));
    ASSERT_TRUE(back) << "seed " << seed << ": " << back.error().message;
    ASSERT_EQ(*back, image) << "seed " << seed;
  }
}

TEST(SequenceImage, every_truncation_is_corrupt) {
  const std::vector<uint8_t> bytes = serialize(random_image(3));
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto result = deserialize_sequence_image(std::span(bytes).first(size));
    ASSERT_FALSE(result) << size << " of " << bytes.size();
    ASSERT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
}

TEST(SequenceImage, every_flipped_bit_is_corrupt) {
  std::vector<uint8_t> bytes = serialize(random_image(4));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    const auto result = deserialize_sequence_image(bytes);
    ASSERT_FALSE(result) << "bit " << bit;
    ASSERT_EQ(result.error().code, ErrorCode::kCorrupt) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
  }
}

TEST(SequenceImage, hostile_lengths_under_a_right_checksum_are_corrupt) {
  const std::vector<uint8_t> good = serialize(random_image(5));
  // The first length stands behind the magic and the version.
  for (const uint64_t length :
       {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 40, static_cast<uint64_t>(good.size())}) {
    std::vector<uint8_t> bytes = good;
    std::memcpy(bytes.data() + 12, &length, sizeof(length));
    rewrite_checksum(bytes);
    const auto result = deserialize_sequence_image(bytes);
    ASSERT_FALSE(result) << length;
    EXPECT_EQ(result.error().code, ErrorCode::kCorrupt);
  }
}

TEST(SequenceImage, extra_bytes_under_a_right_checksum_are_corrupt) {
  std::vector<uint8_t> bytes = serialize(random_image(6));
  bytes.push_back(0);
  rewrite_checksum(bytes);
  EXPECT_EQ(deserialize_sequence_image(bytes).error().code, ErrorCode::kCorrupt);
}

TEST(SequenceImage, random_bytes_under_a_right_checksum_never_crash) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::vector<uint8_t> bytes = serialize(random_image(seed % 7));
    for (uint64_t i = 0; i < 4; ++i)
      bytes[12 + mix64(seed * 8 + i) % (bytes.size() - 12)] =
          static_cast<uint8_t>(mix64(seed * 8 + i + 4));
    rewrite_checksum(bytes);
    const auto result = deserialize_sequence_image(bytes);
    ASSERT_TRUE(result || result.error().code == ErrorCode::kCorrupt) << "seed " << seed;
  }
}

TEST(SequenceImage, another_version_is_unsupported_and_named) {
  std::vector<uint8_t> bytes = serialize(random_image(7));
  bytes[8] = 9;
  rewrite_checksum(bytes);
  const auto result = deserialize_sequence_image(bytes);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message.find("version 1 expected, 9 found"), std::string::npos);
}

}  // namespace
}  // namespace yeoul
