#include "checkpoint/identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace yeoul {
namespace {

namespace fs = std::filesystem;

TEST(SampledPages, small_tensors_are_read_whole_and_large_ones_at_three_places) {
  const auto covered = [](uint64_t num_bytes) {
    std::vector<std::pair<uint64_t, uint64_t>> pages;
    for (const SampledPage& page : sampled_pages(num_bytes)) {
      pages.emplace_back(page.offset, page.num_bytes);
    }
    return pages;
  };
  using Pages = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(covered(0), Pages());
  EXPECT_EQ(covered(1), (Pages{{0, 1}}));
  EXPECT_EQ(covered(4097), (Pages{{0, 4096}, {4096, 1}}));
  EXPECT_EQ(covered(12288), (Pages{{0, 4096}, {4096, 4096}, {8192, 4096}}));
  EXPECT_EQ(covered(12289), (Pages{{0, 4096}, {4096, 4096}, {8193, 4096}}));
  EXPECT_EQ(covered(1'000'000), (Pages{{0, 4096}, {499'712, 4096}, {995'904, 4096}}));
}

// A copy of the embedded checkpoint whose bytes may be changed.
class IdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / "yeoul-identity-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    fs::copy("models/tiny-random", folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string identity() const {
    const auto checkpoint = Checkpoint::open(folder_);
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return *(*checkpoint)->identity();
  }
  // Flips one bit `offset` bytes into a tensor.
  void flip(const std::string& name, uint64_t offset) const {
    const auto checkpoint = Checkpoint::open(folder_);
    const TensorEntry& entry = **(*checkpoint)->find(name);
    const std::string& path = (*checkpoint)->shards()[static_cast<size_t>(entry.shard)].path();
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const auto place = static_cast<std::streamoff>(entry.offset + offset);
    file.seekg(place);
    const int byte = file.get();
    file.seekp(place);
    file.put(static_cast<char>(byte ^ 1));
  }

  std::string folder_;
};

TEST_F(IdentityTest, is_the_same_for_the_same_checkpoint_elsewhere) {
  const auto original = Checkpoint::open("models/tiny-random");
  ASSERT_TRUE(original);
  const auto first = (*original)->identity();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->size(), 32u);
  EXPECT_EQ(first->find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(*(*original)->identity(), *first);
  EXPECT_EQ(identity(), *first);
}

TEST_F(IdentityTest, differs_when_a_sampled_byte_differs) {
  const std::string before = identity();
  const uint64_t embed_bytes = 512 * 96 * 2;
  const uint64_t middle = embed_bytes / 2 / 4096 * 4096;
  for (const auto& [name, offset] :
       std::vector<std::pair<std::string, uint64_t>>{{"embed.weight", 0},
                                                     {"embed.weight", 4095},
                                                     {"embed.weight", middle},
                                                     {"embed.weight", middle + 4095},
                                                     {"embed.weight", embed_bytes - 1},
                                                     {"layers.3.ffn.experts.11.w2.scale", 100},
                                                     {"layers.4.engram.embed.weight", 0},
                                                     {"mtp.2.confidence_head.proj.weight", 255},
                                                     {"vision.norm.weight", 64}}) {
    flip(name, offset);
    EXPECT_NE(identity(), before) << name << " at " << offset;
    flip(name, offset);
  }
  EXPECT_EQ(identity(), before);
}

// The stated limit: between the sampled pages of a tensor above 12 KiB nothing is looked at.
TEST_F(IdentityTest, does_not_see_bytes_between_the_sampled_pages) {
  const std::string before = identity();
  flip("embed.weight", 4096);
  EXPECT_EQ(identity(), before);
}

TEST_F(IdentityTest, differs_when_the_config_differs) {
  const std::string before = identity();
  std::ofstream(folder_ + "/config.json", std::ios::app) << "\n";
  EXPECT_NE(identity(), before);
}

TEST_F(IdentityTest, a_shard_cut_after_open_is_an_error_that_names_shard_and_tensor) {
  const auto checkpoint = Checkpoint::open(folder_);
  ASSERT_TRUE(checkpoint);
  const std::string shard = folder_ + "/model-00006-of-00006.safetensors";
  ASSERT_EQ(::truncate(shard.c_str(), 10'000), 0);
  const auto found = (*checkpoint)->identity();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(found.error().message.find(shard + ": layers.4.engram."), std::string::npos)
      << found.error().message;
}

}  // namespace
}  // namespace yeoul
