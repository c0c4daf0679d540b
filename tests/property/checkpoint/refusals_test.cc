// Every way a checkpoint directory can be wrong, and what is said about it. The checkpoints are
// sparse copies of the embedded one, broken by one edit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class BrokenCheckpoint : public testing::Test {
 protected:
  void SetUp() override {
    const auto config = parse_config(read_text("models/tiny-random/config.json"));
    ASSERT_TRUE(config) << config.error().message;
    plan_ = plan_checkpoint(*config);
  }

  void write() {
    const auto outcome = write_checkpoint(plan_, folder_.path(), {});
    ASSERT_TRUE(outcome) << outcome.error().message;
  }
  // The message of the refusal; empty when the checkpoint opens.
  std::string refusal(ErrorCode code = ErrorCode::kCorrupt) const {
    const auto checkpoint = Checkpoint::open(folder_.path());
    if (checkpoint) return "";
    EXPECT_EQ(checkpoint.error().code, code) << checkpoint.error().message;
    return checkpoint.error().message;
  }

  PlannedShard& shard_of(const std::string& name) {
    for (PlannedShard& shard : plan_.shards) {
      for (const ExpectedTensor& tensor : shard.tensors) {
        if (tensor.name == name) return shard;
      }
    }
    ADD_FAILURE() << name;
    return plan_.shards[0];
  }
  ExpectedTensor& tensor(const std::string& name) {
    std::vector<ExpectedTensor>& tensors = shard_of(name).tensors;
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const ExpectedTensor& entry) { return entry.name == name; });
  }
  void remove(const std::string& name) {
    std::erase_if(shard_of(name).tensors,
                  [&](const ExpectedTensor& entry) { return entry.name == name; });
  }
  std::string path(const std::string& file_name) const { return folder_.path() + "/" + file_name; }

  // Changes one of the JSON files of the folder in place.
  template <typename Edit>
  void edit_json(const std::string& file_name, Edit edit) const {
    Json json = Json::parse(read_text(path(file_name)));
    edit(json);
    std::ofstream(path(file_name)) << json.dump();
  }

  TemporaryFolder folder_;
  CheckpointPlan plan_;
};

constexpr const char* kIndexName = "model.safetensors.index.json";

TEST_F(BrokenCheckpoint, unbroken_it_opens) {
  write();
  EXPECT_EQ(refusal(), "");
}

TEST_F(BrokenCheckpoint, a_missing_tensor_is_named_with_its_geometry) {
  remove("layers.3.attn.wq_a.scale");
  write();
  EXPECT_EQ(refusal(), folder_.path() +
                           ": tensors against config.json: 1 problem\n  layers.3.attn.wq_a.scale: "
                           "F8_E8M0 [2, 3] expected, not found in 18 shards");
}

TEST_F(BrokenCheckpoint, an_unknown_tensor_is_named_with_its_shard) {
  plan_.shards[7].tensors.push_back({"layers.3.attn.wq_c.weight", Dtype::kBf16, {2, 2}, {}});
  write();
  EXPECT_THAT(refusal(), HasSubstr("layers.3.attn.wq_c.weight: BF16 [2, 2] in " +
                                   path(plan_.shards[7].file_name) + ", unknown to this config"));
}

TEST_F(BrokenCheckpoint, a_wrong_shape_is_told_with_shard_expected_and_found) {
  std::swap(tensor("layers.7.attn.wq_a.weight").shape[0],
            tensor("layers.7.attn.wq_a.weight").shape[1]);
  write();
  EXPECT_THAT(refusal(), HasSubstr("layers.7.attn.wq_a.weight: F8_E4M3 [64, 96] expected, F8_E4M3 "
                                   "[96, 64] found in " +
                                   path("model-00010-of-00018.safetensors")));
}

TEST_F(BrokenCheckpoint, a_wrong_dtype_of_the_same_size_is_told) {
  tensor("layers.0.ffn.experts.5.w1.weight").dtype = Dtype::kF8E4m3;
  write();
  EXPECT_THAT(refusal(), HasSubstr("layers.0.ffn.experts.5.w1.weight: I8 [64, 48] expected, "
                                   "F8_E4M3 [64, 48] found in"));
}

TEST_F(BrokenCheckpoint, an_engram_table_of_another_length_than_the_config_says_is_told) {
  tensor("layers.4.engram.embed.weight").shape[0] = 607;
  write();
  EXPECT_THAT(refusal(),
              HasSubstr("layers.4.engram.embed.weight: F8_E4M3 [606, 64] expected, F8_E4M3 [607, "
                        "64] found"));
}

TEST_F(BrokenCheckpoint, a_config_without_table_lengths_takes_them_from_the_tables) {
  write();
  edit_json("config.json", [](Json& json) { json["text_config"].erase("engram_num_embeddings"); });
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ((*checkpoint)->config().engram_num_embeddings, (std::vector<int64_t>{434, 606}));
}

TEST_F(BrokenCheckpoint, table_and_scales_of_different_lengths_are_told_without_config_too) {
  tensor("layers.4.engram.embed.scale").shape[0] = 605;
  write();
  edit_json("config.json", [](Json& json) { json["text_config"].erase("engram_num_embeddings"); });
  EXPECT_THAT(refusal(), HasSubstr("layers.4.engram.embed.scale: F8_E8M0 [606, 2] expected, "
                                   "F8_E8M0 [605, 2] found"));
}

TEST_F(BrokenCheckpoint, ten_problems_are_shown_and_the_rest_counted) {
  for (PlannedShard& shard : plan_.shards) {
    std::erase_if(shard.tensors, [](const ExpectedTensor& entry) {
      return entry.name.starts_with("layers.9.ffn.experts.");
    });
  }
  write();
  const std::string message = refusal();
  EXPECT_THAT(message, HasSubstr("tensors against config.json: 72 problems"));
  EXPECT_THAT(message, HasSubstr("layers.9.ffn.experts.0.w1.weight: "));
  EXPECT_THAT(message, HasSubstr("\n  and 62 more"));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 11);
}

TEST_F(BrokenCheckpoint, a_tensor_in_two_shards_is_told_with_both) {
  plan_.shards[5].tensors.push_back(tensor("norm.weight"));
  write();
  // The writer's index would list the name twice; this index lists it once.
  edit_json(kIndexName, [](Json&) {});
  EXPECT_THAT(refusal(), HasSubstr("tensors stored twice: 1 problem\n  norm.weight: in "
                                   "model-00002-of-00018.safetensors and in "
                                   "model-00006-of-00018.safetensors"));
}

TEST_F(BrokenCheckpoint, missing_shards_are_all_named) {
  write();
  std::filesystem::remove(path(plan_.shards[3].file_name));
  std::filesystem::remove(path(plan_.shards[11].file_name));
  const std::string message = refusal(ErrorCode::kNotFound);
  EXPECT_THAT(message, HasSubstr("of 18 shards named by the index: 2 problems"));
  EXPECT_THAT(message, HasSubstr(path("model-00004-of-00018.safetensors") + ": cannot open"));
  EXPECT_THAT(message, HasSubstr(path("model-00012-of-00018.safetensors") + ": cannot open"));
}

TEST_F(BrokenCheckpoint, a_missing_index_is_not_found) {
  write();
  std::filesystem::remove(path(kIndexName));
  EXPECT_THAT(refusal(ErrorCode::kNotFound), HasSubstr(path(kIndexName) + ": cannot open"));
}

TEST_F(BrokenCheckpoint, an_index_that_names_another_shard_is_told_with_both) {
  write();
  edit_json(kIndexName, [](Json& json) {
    json["weight_map"]["norm.weight"] = "model-00001-of-00018.safetensors";
  });
  EXPECT_THAT(refusal(), HasSubstr("norm.weight: the index names model-00001-of-00018.safetensors, "
                                   "found in model-00002-of-00018.safetensors"));
}

TEST_F(BrokenCheckpoint, an_index_with_a_name_too_many_or_too_few_is_told) {
  write();
  edit_json(kIndexName, [](Json& json) {
    json["weight_map"].erase("norm.weight");
    json["weight_map"]["ghost.weight"] = "model-00001-of-00018.safetensors";
  });
  const std::string message = refusal();
  EXPECT_THAT(message, HasSubstr("norm.weight: in model-00002-of-00018.safetensors, not in the "
                                 "index"));
  EXPECT_THAT(message, HasSubstr("ghost.weight: the index names model-00001-of-00018.safetensors, "
                                 "no shard holds it"));
}

TEST_F(BrokenCheckpoint, a_wrong_total_is_told) {
  write();
  edit_json(kIndexName, [](Json& json) { json["metadata"]["total_size"] = 4'362'744; });
  EXPECT_EQ(refusal(), path(kIndexName) +
                           ": metadata.total_size: 4362743 (bytes of all tensors) "
                           "expected, 4362744 found");
}

TEST_F(BrokenCheckpoint, a_malformed_index_is_told_with_its_path) {
  write();
  std::ofstream(path(kIndexName)) << "{\"weight_map\": {";
  EXPECT_THAT(refusal(), HasSubstr(path(kIndexName) + ": invalid JSON"));
}

TEST_F(BrokenCheckpoint, a_truncated_shard_is_told_with_tensor_and_path) {
  write();
  const std::string shard = path(plan_.shards[4].file_name);
  ASSERT_EQ(::truncate(shard.c_str(), static_cast<off_t>(std::filesystem::file_size(shard)) - 1),
            0);
  EXPECT_THAT(refusal(), HasSubstr(shard + ": layers.2."));
  EXPECT_THAT(refusal(), HasSubstr("bytes of data (truncated?)"));
}

TEST_F(BrokenCheckpoint, bytes_behind_the_last_tensor_are_told) {
  write();
  const std::string shard = path(plan_.shards[4].file_name);
  ASSERT_EQ(::truncate(shard.c_str(), static_cast<off_t>(std::filesystem::file_size(shard)) + 1),
            0);
  EXPECT_THAT(refusal(), HasSubstr(shard + ": the tensors cover"));
}

TEST_F(BrokenCheckpoint, an_empty_shard_is_told) {
  write();
  const std::string shard = path(plan_.shards[4].file_name);
  ASSERT_EQ(::truncate(shard.c_str(), 0), 0);
  EXPECT_EQ(refusal(), shard + ": 8 bytes expected at least, 0 found");
}

TEST_F(BrokenCheckpoint, a_big_endian_shard_is_called_that) {
  write();
  const std::string shard = path(plan_.shards[0].file_name);
  std::string prefix = read_text(shard).substr(0, 8);
  std::reverse(prefix.begin(), prefix.end());
  std::fstream(shard, std::ios::binary | std::ios::in | std::ios::out) << prefix;
  EXPECT_THAT(refusal(), HasSubstr(shard + ": the header length is big-endian"));
}

TEST_F(BrokenCheckpoint, a_folder_in_the_place_of_a_shard_is_told) {
  write();
  const std::string shard = path(plan_.shards[0].file_name);
  std::filesystem::remove(shard);
  std::filesystem::create_directory(shard);
  EXPECT_THAT(refusal(ErrorCode::kNotFound), HasSubstr(shard + ": not a regular file"));
}

TEST_F(BrokenCheckpoint, vision_tensors_without_vision_config_are_unknown) {
  write();
  edit_json("config.json", [](Json& json) { json.erase("vision_config"); });
  EXPECT_THAT(refusal(), HasSubstr("image_start: BF16 [96] in"));
}

TEST_F(BrokenCheckpoint, without_vision_config_no_vision_tensor_is_expected) {
  Json json = Json::parse(plan_.config_json);
  json.erase("vision_config");
  const auto config = parse_config(json.dump());
  ASSERT_TRUE(config) << config.error().message;
  plan_ = plan_checkpoint(*config);
  write();
  const auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_FALSE((*checkpoint)->find("vision.norm.weight"));
  EXPECT_EQ((*checkpoint)->totals().bytes_by_owner.count("vision"), 0u);
}

TEST_F(BrokenCheckpoint, a_config_of_another_size_is_refused_tensor_by_tensor) {
  write();
  edit_json("config.json", [](Json& json) { json["text_config"]["q_lora_rank"] = 128; });
  EXPECT_THAT(refusal(), HasSubstr("layers.0.attn.wq_a.weight: F8_E4M3 [128, 96] expected, F8_E4M3 "
                                   "[64, 96] found"));
}

TEST_F(BrokenCheckpoint, a_config_that_contradicts_itself_is_refused_before_any_shard) {
  write();
  edit_json("config.json", [](Json& json) { json["text_config"]["num_experts_per_tok"] = 99; });
  std::filesystem::remove(path(plan_.shards[0].file_name));
  EXPECT_EQ(refusal(),
            folder_.path() + ": config.json: num_experts_per_tok 99 exceeds n_routed_experts 12");
}

TEST_F(BrokenCheckpoint, a_config_of_megabytes_is_refused_unread) {
  write();
  std::ofstream(path("config.json")) << std::string(2'000'000, ' ');
  EXPECT_EQ(refusal(), path("config.json") + ": 1048576 bytes at most expected, 2000000 found");
}

}  // namespace
}  // namespace yeoul
