#include "text/engram_token_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/json.h"

namespace yeoul {
namespace {

TEST(EngramKey, case_accents_width_and_spacing_do_not_count) {
  EXPECT_EQ(engram_key("Hello"), "hello");
  EXPECT_EQ(engram_key(" CAFÉ\t\n"), "cafe");
  EXPECT_EQ(engram_key("ＡＢＣ①"), "abc1");
  EXPECT_EQ(engram_key("İ"), "i");
  EXPECT_EQ(engram_key("a \t\r\n b"), "a b");
  EXPECT_EQ(engram_key("\u3000x\u2003"), "x");
  EXPECT_EQ(engram_key("한"), "\u1112\u1161\u11ab");  // stays decomposed
}

TEST(EngramKey, marks_of_every_category_are_removed) {
  EXPECT_EQ(engram_key("e\u0301"), "e");            // Mn
  EXPECT_EQ(engram_key("\u09be\u09b0"), "\u09b0");  // Mc
  EXPECT_EQ(engram_key("\u20e3\ufe0f"), "");        // Me, Mn
}

TEST(EngramKey, one_space_stays_one_and_nothing_else_of_white_space_does) {
  EXPECT_EQ(engram_key(" "), " ");
  EXPECT_EQ(engram_key(" \n\t "), " ");
  EXPECT_EQ(engram_key("\u2028"), "");
  EXPECT_EQ(engram_key(""), "");
}

TEST(EngramTokenMap, the_tiny_vocabulary_gives_the_golden_map) {
  const auto tokenizer = Tokenizer::load("models/tiny-random/tokenizer.json");
  ASSERT_TRUE(tokenizer);
  std::ifstream file("tests/golden/data/tiny_engram.json", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto golden = parse_json(text);
  ASSERT_TRUE(golden);
  EXPECT_EQ(engram_token_map(**tokenizer), (*golden)["token_map"].get<std::vector<int32_t>>());
}

}  // namespace
}  // namespace yeoul
