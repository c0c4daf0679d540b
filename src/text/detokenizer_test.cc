#include "text/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "text/utf8.h"

namespace yeoul {
namespace {

std::shared_ptr<const Tokenizer> tiny() {
  static const auto tokenizer = Tokenizer::load("models/tiny-random/tokenizer.json");
  EXPECT_TRUE(tokenizer);
  return *tokenizer;
}

// In the tiny vocabulary byte b is id 3 + b.
TokenId of_byte(int byte) {
  return 3 + byte;
}

TEST(Detokenizer, a_code_point_appears_when_its_last_byte_does) {
  Detokenizer detokenizer(tiny());
  EXPECT_EQ(detokenizer.push(of_byte(0xEC)), "");
  EXPECT_EQ(detokenizer.push(of_byte(0x97)), "");
  EXPECT_EQ(detokenizer.push(of_byte(0xAC)), "여");
  EXPECT_EQ(detokenizer.push(of_byte('a')), "a");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, bytes_that_cannot_become_a_code_point_are_replaced_at_once) {
  Detokenizer detokenizer(tiny());
  EXPECT_EQ(detokenizer.push(of_byte(0xFF)), "\uFFFD");
  EXPECT_EQ(detokenizer.push(of_byte(0xEC)), "");
  EXPECT_EQ(detokenizer.push(of_byte('a')), "\uFFFDa");
  EXPECT_EQ(detokenizer.push(of_byte(0xF0)), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, markers_are_their_spelling_and_unknown_ids_nothing) {
  Detokenizer detokenizer(tiny());
  EXPECT_EQ(detokenizer.push(503), "</think>");
  EXPECT_EQ(detokenizer.push(99999), "");
}

TEST(Detokenizer, the_pieces_join_to_the_whole_and_each_is_whole_utf8) {
  rc::check([] {
    const auto bytes = *rc::gen::container<std::vector<int>>(
        rc::gen::oneOf(rc::gen::inRange(0, 256), rc::gen::inRange(0x80, 0xC0),
                       rc::gen::element(0xEC, 0x97, 0xAC, 0xF0, 0x9F, 0x98, 0x80)));
    Detokenizer detokenizer(tiny());
    std::string all;
    std::string joined;
    for (const int byte : bytes) {
      all.push_back(static_cast<char>(byte));
      const std::string piece = detokenizer.push(of_byte(byte));
      RC_ASSERT(replace_invalid_utf8(piece) == piece);
      joined += piece;
    }
    joined += detokenizer.finish();
    RC_ASSERT(joined == replace_invalid_utf8(all));
  });
}

}  // namespace
}  // namespace yeoul
