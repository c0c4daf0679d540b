#include "text/plain_tokenizer.h"

#include <gtest/gtest.h>

#include "text/chat_format.h"
#include "text/engram_token_map.h"
#include "text/tokenizer.h"

namespace yeoul {
namespace {

class PlainTokenizerOfSize : public testing::TestWithParam<int32_t> {};

TEST_P(PlainTokenizerOfSize, is_read_back_with_every_id_and_returns_what_it_was_given) {
  const auto made = make_plain_tokenizer(GetParam());
  ASSERT_TRUE(made);
  const auto tokenizer = Tokenizer::parse(made->json);
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->vocab_size(), GetParam());
  EXPECT_EQ((*tokenizer)->marker("<｜deepseek_image｜>"), made->image_token);
  for (TokenId id = 0; id < GetParam(); ++id) {
    ASSERT_FALSE((*tokenizer)->token_entry(id).empty()) << id;
  }
  for (const char* text : {"Hello, 여울! 123 \n\t x", "", "\xff\x00z", "<think>"}) {
    std::vector<TokenId> ids;
    (*tokenizer)->encode_text(text, ids);
    EXPECT_EQ((*tokenizer)->decode(ids), text);
  }
  EXPECT_EQ(engram_token_map(**tokenizer).size(), static_cast<size_t>(GetParam()));
}

// Bytes and markers alone, some pairs, all pairs and a triple, the release's size.
INSTANTIATE_TEST_SUITE_P(Sizes, PlainTokenizerOfSize,
                         testing::Values(275, 512, 275 + 65536 + 1, 129280));

TEST(PlainTokenizer, longer_text_takes_fewer_tokens_than_bytes) {
  const auto tokenizer = Tokenizer::parse(make_plain_tokenizer(129280)->json);
  std::vector<TokenId> ids;
  (*tokenizer)->encode_text("the shallow of a stream", ids);
  EXPECT_LT(ids.size(), 15u);
}

TEST(PlainTokenizer, sizes_that_cannot_hold_the_markers_are_refused_with_the_bounds) {
  const auto small = make_plain_tokenizer(274);
  ASSERT_FALSE(small);
  EXPECT_NE(small.error().message.find("275 to 16843027"), std::string::npos)
      << small.error().message;
  EXPECT_NE(small.error().message.find("274 found"), std::string::npos);
}

}  // namespace
}  // namespace yeoul
