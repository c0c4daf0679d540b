#include "checkpoint/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace yeoul {
namespace {

using testing::HasSubstr;

TEST(ShardIndex, shards_are_sorted_and_entries_point_to_them) {
  const auto index = parse_shard_index(R"({"metadata": {"total_size": 42, "other": [1, {"x": 2}]},
    "weight_map": {"x": "b.safetensors", "y": "a.safetensors", "z": "b.safetensors"},
    "extra": {"weight_map": {"not": 1}}})");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->shards, (std::vector<std::string>{"a.safetensors", "b.safetensors"}));
  EXPECT_EQ(index->total_size, 42u);
  ASSERT_EQ(index->entries.size(), 3u);
  EXPECT_EQ(index->entries[0].name, "x");
  EXPECT_EQ(index->entries[0].shard, 1);
  EXPECT_EQ(index->entries[1].name, "y");
  EXPECT_EQ(index->entries[1].shard, 0);
  EXPECT_EQ(index->entries[2].shard, 1);
}

TEST(ShardIndex, the_total_is_optional_and_may_be_written_as_a_float) {
  EXPECT_EQ(parse_shard_index(R"({"weight_map": {}})")->total_size, std::nullopt);
  EXPECT_EQ(parse_shard_index(R"({"weight_map": {}, "metadata": {"total_size": 510286023000.0}})")
                ->total_size,
            510'286'023'000u);
}

struct IndexRefusal {
  const char* json;
  const char* message;
};

class IndexRefusals : public testing::TestWithParam<IndexRefusal> {};

TEST_P(IndexRefusals, say_what_is_wrong) {
  const auto index = parse_shard_index(GetParam().json);
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(index.error().message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Index, IndexRefusals,
    testing::Values(
        IndexRefusal{"", "invalid JSON"}, IndexRefusal{"{", "invalid JSON"},
        IndexRefusal{"[]", "an object expected, a list found"},
        IndexRefusal{"3", "an object expected, 3 found"}, IndexRefusal{"{}", "weight_map: missing"},
        IndexRefusal{R"({"weight_map": []})", "weight_map: an object expected, a list found"},
        IndexRefusal{R"({"weight_map": "x"})", "weight_map: an object expected, a string found"},
        IndexRefusal{R"({"weight_map": {"a": 1}})", "weight_map[\"a\"]: a file name expected, 1"},
        IndexRefusal{R"({"weight_map": {"a": {}}})", "a file name expected, an object found"},
        IndexRefusal{R"({"weight_map": {"a": "../../etc/passwd"}})",
                     "a plain file name expected, \"../../etc/passwd\" found"},
        IndexRefusal{R"({"weight_map": {"a": "/dev/zero"}})", "a plain file name expected"},
        IndexRefusal{R"({"weight_map": {"a": ".."}})", "a plain file name expected"},
        IndexRefusal{R"({"weight_map": {"a": ""}})", "a plain file name expected"},
        IndexRefusal{R"({"weight_map": {"a": "x\u0000y"}})", "a plain file name expected"},
        IndexRefusal{R"({"weight_map": {"a": "x", "a": "y"}})", "weight_map names a twice"},
        IndexRefusal{R"({"weight_map": {}, "weight_map": {}})", "\"weight_map\" given twice"},
        IndexRefusal{R"({"weight_map": {}, "metadata": {"total_size": -1}})",
                     "metadata.total_size: a count of bytes expected, -1 found"},
        IndexRefusal{R"({"weight_map": {}, "metadata": {"total_size": 1.5}})", "1.5 found"},
        IndexRefusal{R"({"weight_map": {}, "metadata": {"total_size": 1e30}})", "1e30 found"},
        IndexRefusal{R"({"weight_map": {}, "metadata": {"total_size": "9"}})", "a string found"},
        IndexRefusal{R"({"a": [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]})", "nested deeper than 16"}));

TEST(ShardIndex, a_nul_does_not_hide_the_rest_of_the_text) {
  EXPECT_EQ(parse_shard_index(std::string("{}\0}", 4)).error().message,
            "invalid JSON: NUL at byte 2");
}

}  // namespace
}  // namespace yeoul
