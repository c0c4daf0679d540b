#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace yeoul {
namespace {

using testing::HasSubstr;

std::array<std::byte, 8> length_bytes(uint64_t length) {
  return std::bit_cast<std::array<std::byte, 8>>(length);
}

TEST(HeaderLen, is_read_little_endian_within_the_file) {
  EXPECT_EQ(parse_header_len(length_bytes(100), 200), 100u);
  EXPECT_EQ(parse_header_len(length_bytes(192), 200), 192u);
}

struct LenRefusal {
  uint64_t length;
  uint64_t file_bytes;
  const char* message;
};

TEST(HeaderLen, what_cannot_be_is_refused_with_the_reason) {
  for (const LenRefusal& refusal :
       {LenRefusal{193, 200, "a header of 193 bytes expected, 192 bytes left in the file"},
        LenRefusal{0, 200, "header length from 2 to 100000000 expected, 0 found"},
        LenRefusal{1, 200, "1 found"},
        LenRefusal{100'000'001, uint64_t{1} << 40, "100000001 found"},
        LenRefusal{~0ull, uint64_t{1} << 40, "18446744073709551615 found"},
        LenRefusal{100, 8, "100 bytes expected, 0 bytes left"},
        LenRefusal{__builtin_bswap64(100), 200,
                   "the header length is big-endian (100 read backwards)"}}) {
    const auto length = parse_header_len(length_bytes(refusal.length), refusal.file_bytes);
    ASSERT_FALSE(length) << refusal.length;
    EXPECT_EQ(length.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(length.error().message, HasSubstr(refusal.message));
  }
}

TEST(Header, tensors_come_in_the_order_of_their_bytes) {
  const auto tensors = parse_header(
      R"({"__metadata__": {"format": "pt", "more": {"deep": [1, [2.5], null]}},
          "b": {"shape": [2, 3], "dtype": "BF16", "data_offsets": [4, 16]},
          "scalar": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
          "empty": {"dtype": "I8", "shape": [7, 0, 9223372036854775807], "data_offsets": [4, 4]}
         }   )",
      16);
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 3u);
  EXPECT_EQ((*tensors)[0].name, "scalar");
  EXPECT_EQ((*tensors)[1].name, "empty");
  EXPECT_EQ((*tensors)[2].name, "b");
  EXPECT_EQ((*tensors)[2].dtype, Dtype::kBf16);
  EXPECT_EQ((*tensors)[2].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*tensors)[2].begin, 4u);
  EXPECT_EQ((*tensors)[2].end, 16u);
}

TEST(Header, of_no_tensors_fits_a_file_of_no_data) {
  EXPECT_TRUE(parse_header("{}", 0));
  EXPECT_FALSE(parse_header("{}", 1));
}

struct HeaderRefusal {
  const char* json;
  uint64_t data_bytes;
  const char* message;
  ErrorCode code = ErrorCode::kCorrupt;
};

class HeaderRefusals : public testing::TestWithParam<HeaderRefusal> {};

TEST_P(HeaderRefusals, say_what_is_wrong) {
  const HeaderRefusal& refusal = GetParam();
  const auto tensors = parse_header(refusal.json, refusal.data_bytes);
  ASSERT_FALSE(tensors);
  EXPECT_EQ(tensors.error().code, refusal.code);
  EXPECT_THAT(tensors.error().message, HasSubstr(refusal.message));
}

INSTANTIATE_TEST_SUITE_P(
    Places, HeaderRefusals,
    testing::Values(
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]},
                          "b": {"dtype": "I8", "shape": [4], "data_offsets": [2, 6]}})",
                      6, "b: data_offsets [2, 6] overlap a [0, 4]"},
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]},
                          "b": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}})",
                      4, "b: data_offsets [0, 4] overlap a [0, 4]"},
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]},
                          "b": {"dtype": "I8", "shape": [4], "data_offsets": [5, 9]}})",
                      9, "b: data_offsets start at 5, but the data before it ends at 4"},
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [2, 6]}})", 6,
                      "start at 2, but the data before it ends at 0"},
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}})", 6,
                      "the tensors cover 4 bytes, the file holds 6 bytes of data"},
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}})", 3,
                      "data_offsets [0, 4], but the file holds 3 bytes of data (truncated?)"},
        HeaderRefusal{R"({"a": {"dtype": "I8", "shape": [4], "data_offsets": [4, 0]}})", 4,
                      "data_offsets [4, 0] run backwards"},
        HeaderRefusal{R"({"a": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 4]}})", 4,
                      "a: BF16 [3] takes 6 bytes, data_offsets [0, 4] hold 4"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296],
                          "data_offsets": [0, 0]}})",
                      0, "takes more than 2^64 bytes"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [4611686018427387904],
                          "data_offsets": [0, 0]}})",
                      0, "takes more than 2^64 bytes"}));

INSTANTIATE_TEST_SUITE_P(
    Fields, HeaderRefusals,
    testing::Values(
        HeaderRefusal{R"({"a": {"dtype": "F16", "shape": [2], "data_offsets": [0, 4]}})", 4,
                      "a: dtype: F32, BF16, F8_E4M3, F8_E8M0 or I8 expected, \"F16\" found",
                      ErrorCode::kUnsupported},
        HeaderRefusal{R"({"a": {"dtype": 3, "shape": [], "data_offsets": [0, 4]}})", 4,
                      "a: dtype: a string expected, 3 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": "4", "data_offsets": [0, 4]}})", 4,
                      "a: shape: a list expected, a string found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", 4,
                      "a: shape: integers from 0 to 2^63 - 1 expected, -1 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}})", 4,
                      "expected, 1.0 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [9223372036854775808],
                          "data_offsets": [0, 4]}})",
                      4, "expected, 9223372036854775808 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [99999999999999999999],
                          "data_offsets": [0, 4]}})",
                      4, "expected, 99999999999999999999 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [[1]], "data_offsets": [0, 4]}})", 4,
                      "a: shape: integers"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1],
                          "data_offsets": [0, 4]}})",
                      4, "a: shape: more than 8 dimensions"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [-4, 0]}})", 4,
                      "data_offsets: integers from 0 to 2^64 - 1 expected, -4 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [0]}})", 4,
                      "data_offsets: two numbers expected, 1 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4, 8]}})", 4,
                      "data_offsets: two numbers expected, more found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [], "data_offsets": 4}})", 4,
                      "data_offsets: a list expected, 4 found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": []}})", 4, "a: data_offsets is missing"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "data_offsets": [0, 4]}})", 4,
                      "a: shape is missing"},
        HeaderRefusal{R"({"a": {"shape": [], "data_offsets": [0, 4]}})", 4, "a: dtype is missing"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [], "dtype": "F32"}})", 4,
                      "a: dtype given twice"},
        HeaderRefusal{R"({"a": {"shape": [1], "shape": [1]}})", 4, "a: shape given twice"},
        HeaderRefusal{R"({"a": {"data_offsets": [0, 4], "data_offsets": [0, 4]}})", 4,
                      "a: data_offsets given twice"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "crc": 1}})", 4, "a: unknown field \"crc\""},
        HeaderRefusal{R"({"a": 7})", 4, "a: an object with dtype, shape and data_offsets expected"},
        HeaderRefusal{R"({"a": null})", 4, "null found"},
        HeaderRefusal{R"({"a": true})", 4, "true or false found"},
        HeaderRefusal{R"({"a": [1]})", 4, "a list found"},
        HeaderRefusal{R"({"a": {"dtype": {}}})", 4, "a: dtype: a string expected, an object found"},
        HeaderRefusal{R"({"a": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
                          "a": {"dtype": "F32", "shape": [], "data_offsets": [4, 8]}})",
                      8, "a: named twice"}));

INSTANTIATE_TEST_SUITE_P(
    Text, HeaderRefusals,
    testing::Values(HeaderRefusal{"", 0, "does not start with \"{\""},
                    HeaderRefusal{" {}", 0, "does not start with \"{\""},
                    HeaderRefusal{"[]", 0, "does not start with \"{\""},
                    HeaderRefusal{"{\"a\": ", 0, "invalid JSON: "},
                    HeaderRefusal{"{} {}", 0, "invalid JSON: "},
                    HeaderRefusal{"{\"\xff\": 1}", 0, "invalid JSON: "},
                    HeaderRefusal{R"({"__metadata__": "pt"})", 0, "__metadata__: an object"},
                    HeaderRefusal{R"({"__metadata__": [1]})", 0, "__metadata__: an object"},
                    HeaderRefusal{R"({"__metadata__": {}, "__metadata__": {}})", 0,
                                  "named twice"}));

TEST(Header, a_nul_does_not_hide_the_rest_of_the_text) {
  const std::string json("{}\0{\"a\": 1}", 11);
  const auto tensors = parse_header(json, 0);
  ASSERT_FALSE(tensors);
  EXPECT_EQ(tensors.error().message, "NUL in the header at byte 2");
}

TEST(Header, metadata_may_nest_but_not_without_end) {
  const auto nested = [](int levels) {
    std::string json = R"({"__metadata__": )";
    for (int i = 0; i < levels; ++i) json += R"({"x": [)";
    for (int i = 0; i < levels; ++i) json += "]}";
    return json + "}";
  };
  EXPECT_TRUE(parse_header(nested(8), 0));
  const auto tensors = parse_header(nested(9), 0);
  ASSERT_FALSE(tensors);
  EXPECT_EQ(tensors.error().message, "__metadata__: nested too deeply");
}

// read_header on files: the errors carry the path.
class HeaderFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / "yeoul-header-XXXXXX";
    const int descriptor = ::mkstemp(path_.data());
    ASSERT_GE(descriptor, 0);
    ::close(descriptor);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<SafetensorsHeader> read(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary) << bytes;
    return read_header(*File::open(path_));
  }
  static std::string with_length(const std::string& json) {
    std::string bytes(8, '\0');
    const uint64_t length = json.size();
    std::memcpy(bytes.data(), &length, 8);
    return bytes + json;
  }

  std::string path_;
};

TEST_F(HeaderFile, data_starts_behind_the_header) {
  const std::string json = R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}})";
  const auto header = read(with_length(json) + "xyz");
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->data_start, 8 + json.size());
  EXPECT_EQ(header->json, json);
  ASSERT_EQ(header->tensors.size(), 1u);
}

TEST_F(HeaderFile, a_file_too_short_for_anything_is_refused_by_path) {
  const auto header = read("1234567");
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().message, path_ + ": 8 bytes expected at least, 7 found");
}

TEST_F(HeaderFile, every_cut_of_a_file_is_refused_by_path) {
  const std::string whole =
      with_length(R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}})") + "xyz";
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto header = read(whole.substr(0, length));
    ASSERT_FALSE(header) << length;
    EXPECT_THAT(header.error().message, testing::StartsWith(path_ + ": ")) << length;
  }
}

}  // namespace
}  // namespace yeoul
