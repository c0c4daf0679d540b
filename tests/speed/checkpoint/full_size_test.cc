// The release's full checkpoint, 510 GB as sparse files: every figure below was read off the real
// shards by an independent audit of their headers.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/release_config.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

class FullSizeCheckpoint : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryFolder();
    const CheckpointPlan plan = plan_checkpoint(release_config());
    ASSERT_EQ(plan.shards.size(), 48u);
    const auto outcome = write_checkpoint(plan, folder_->path(), {});
    ASSERT_TRUE(outcome) << outcome.error().message;
    const auto start = std::chrono::steady_clock::now();
    auto opened = Checkpoint::open(folder_->path());
    open_seconds_ = std::chrono::steady_clock::now() - start;
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint_ = std::move(*opened);
    std::printf("opened in %.3f s\n", open_seconds_.count());
  }
  static void TearDownTestSuite() {
    checkpoint_.reset();
    delete folder_;
  }
  void SetUp() override { ASSERT_NE(checkpoint_, nullptr); }

  static inline TemporaryFolder* folder_ = nullptr;
  static inline std::shared_ptr<const Checkpoint> checkpoint_;
  static inline std::chrono::duration<double> open_seconds_{};
};

TEST_F(FullSizeCheckpoint, holds_every_tensor_and_byte_of_the_release) {
  EXPECT_EQ(checkpoint_->totals().num_tensors, 96'085);
  EXPECT_EQ(checkpoint_->totals().num_bytes, 510'286'023'000u);
  EXPECT_EQ(checkpoint_->shards().size(), 48u);
}

TEST_F(FullSizeCheckpoint, bytes_by_dtype_are_those_of_the_release) {
  const std::unordered_map<std::string, uint64_t> expected = {{"BF16", 3'952'883'712},
                                                              {"F32", 169'229'128},
                                                              {"F8_E4M3", 204'015'223'296},
                                                              {"F8_E8M0", 23'563'015'184},
                                                              {"I8", 278'585'671'680}};
  EXPECT_EQ(checkpoint_->totals().bytes_by_dtype, expected);
}

TEST_F(FullSizeCheckpoint, bytes_and_tensors_by_owner_are_those_of_the_release) {
  const std::unordered_map<std::string, uint64_t> bytes = {
      {"encoder", 147'838'599'136},      {"decoder", 147'823'271'392},
      {"engram_resident", 315'043'840},  {"dspark", 7'932'874'632},
      {"vision", 970'536'960},           {"engram_tables", 202'758'032'400},
      {"embed_head_norm", 2'647'664'640}};
  const std::unordered_map<std::string, int64_t> tensors = {
      {"encoder", 46'704}, {"decoder", 46'699},  {"engram_resident", 8}, {"dspark", 2'401},
      {"vision", 266},     {"engram_tables", 4}, {"embed_head_norm", 3}};
  EXPECT_EQ(checkpoint_->totals().bytes_by_owner, bytes);
  EXPECT_EQ(checkpoint_->totals().tensors_by_owner, tensors);
}

TEST_F(FullSizeCheckpoint, routed_experts_take_the_bytes_of_the_release) {
  uint64_t num_bytes = 0;
  for (const TensorEntry& entry : checkpoint_->tensors()) {
    if (entry.name.starts_with("layers.") && entry.name.find(".experts.") != std::string::npos) {
      num_bytes += entry.num_bytes;
    }
  }
  EXPECT_EQ(num_bytes, 288'777'830'400u);
}

TEST_F(FullSizeCheckpoint, rows_at_the_far_end_of_a_table_can_be_read) {
  const auto table = checkpoint_->find("layers.14.engram.embed.weight");
  ASSERT_TRUE(table) << table.error().message;
  std::vector<std::byte> row(256, std::byte{1});
  const auto outcome = checkpoint_->read_at(**table, (*table)->num_bytes - row.size(), row);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(row, std::vector<std::byte>(256));
}

TEST_F(FullSizeCheckpoint, opens_in_under_five_seconds) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "sanitizers slow everything down";
#endif
  EXPECT_LT(open_seconds_.count(), 5);
}

}  // namespace
}  // namespace yeoul
