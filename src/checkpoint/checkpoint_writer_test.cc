#include "checkpoint/checkpoint_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/release_config.h"

namespace yeoul {
namespace {

using testing::HasSubstr;

class CheckpointWriter : public testing::Test {
 protected:
  CheckpointWriter() : folder_(std::filesystem::temp_directory_path() / "yeoul-writer-XXXXXX") {
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    ModelConfig config = *slice_config(4);
    config.hidden_size = 64;
    config.vocab_size = 320;
    config.image_token_id = 319;
    config.num_attention_heads = 8;
    config.head_dim = 64;
    config.o_lora_rank = 32;
    config.q_lora_rank = 32;
    config.moe_intermediate_size = 32;
    config.n_routed_experts = 8;
    config.engram_num_embeddings = {24000};
    config.engram_compressed_vocab_size = 300;
    plan_ = plan_checkpoint(config);
  }
  ~CheckpointWriter() override { std::filesystem::remove_all(folder_); }

  std::string folder_;
  CheckpointPlan plan_;
};

// Every byte tells where it stands.
std::byte mark(const ExpectedTensor& tensor, uint64_t offset) {
  return static_cast<std::byte>(offset * 31 + offset / 251 + tensor.name.size());
}

TEST_F(CheckpointWriter, a_reader_finds_every_byte_where_the_filler_put_it) {
  for (const int num_threads : {1, 3}) {
    const std::string folder = folder_ + "/" + std::to_string(num_threads);
    uint64_t reported = 0;
    const auto written = write_checkpoint(
        plan_, folder,
        {.fill =
             [](const ExpectedTensor& tensor, uint64_t offset, std::span<std::byte> into) {
               for (size_t i = 0; i < into.size(); ++i) into[i] = mark(tensor, offset + i);
             },
         .num_threads = num_threads,
         .on_progress =
             [&](uint64_t done, uint64_t total) {
               EXPECT_GE(done, reported);
               EXPECT_LE(done, total);
               reported = done;
             }});
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_GT(reported, 0u);
    const auto checkpoint = Checkpoint::open(folder);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ((*checkpoint)->totals().num_bytes, plan_.num_bytes());
    for (const PlannedShard& shard : plan_.shards) {
      for (const ExpectedTensor& tensor : shard.tensors) {
        const auto entry = (*checkpoint)->find(tensor.name);
        ASSERT_TRUE(entry) << tensor.name;
        std::vector<std::byte> bytes((*entry)->num_bytes);
        const File& file = (*checkpoint)->shards()[static_cast<size_t>((*entry)->shard)];
        ASSERT_TRUE(file.read_at((*entry)->offset, bytes));
        for (size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], mark(tensor, i));
      }
    }
  }
}

TEST_F(CheckpointWriter, without_a_filler_the_files_are_holes_that_read_as_zeros) {
  ASSERT_TRUE(write_checkpoint(plan_, folder_, {}));
  const auto checkpoint = Checkpoint::open(folder_);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->totals().num_bytes, plan_.num_bytes());
}

TEST_F(CheckpointWriter, a_folder_that_holds_a_checkpoint_is_left_alone) {
  ASSERT_TRUE(write_checkpoint(plan_, folder_, {}));
  const auto again = write_checkpoint(plan_, folder_, {});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(again.error().message, HasSubstr("holds a checkpoint already"));
}

TEST_F(CheckpointWriter, what_cannot_be_written_is_named_with_the_reason) {
  const auto written = write_checkpoint(plan_, "/proc/no-such-place", {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(written.error().message, HasSubstr("/proc/no-such-place: cannot write: "));
}

TEST(ConfigFormat, what_is_written_is_read_back_equal) {
  ModelConfig slice = *slice_config(34);
  slice.engram_num_embeddings = {1000, 2000};
  slice.gate_temp = 1.5F;
  slice.image_token_id = -1;
  for (const ModelConfig& config : {release_config(), slice}) {
    const auto read = parse_config(format_config(config));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, config);
  }
}

TEST(SliceConfig, any_number_of_layers_has_every_kind_and_passes_the_check) {
  for (const int32_t num_layers : {4, 5, 8, 16, 31, 32, 40, 1024}) {
    auto config = slice_config(num_layers);
    ASSERT_TRUE(config);
    config->n_routed_experts = 256;  // the check bounds the experts of all layers
    config->engram_num_embeddings.assign(config->engram_layer_ids.size(), 1000);
    const auto checked = parse_config(format_config(*config));
    EXPECT_TRUE(checked) << num_layers << ": " << checked.error().message;
    EXPECT_GT(config->decoder_start(), 2);
    EXPECT_LT(config->decoder_start(), num_layers);
  }
  EXPECT_EQ(slice_config(40)->compress_ratios.size(), 40u);
  EXPECT_EQ(slice_config(40)->index_source_layer_ids, release_config().index_source_layer_ids);
  for (const int32_t num_layers : {3, 1025}) {
    EXPECT_THAT(slice_config(num_layers).error().message, HasSubstr("4 to 1024 expected"));
  }
}

}  // namespace
}  // namespace yeoul
