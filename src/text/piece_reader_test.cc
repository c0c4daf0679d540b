#include "text/piece_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/byte_alphabet.h"
#include "text/unicode_class.h"

namespace yeoul {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> pieces(std::string_view text) {
  std::vector<std::string> out;
  PieceReader reader(text);
  for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) {
    out.emplace_back(piece);
  }
  return out;
}

TEST(PieceReader, words_take_one_space_or_other_lead_character) {
  EXPECT_THAT(pieces("Hello world"), ElementsAre("Hello", " world"));
  EXPECT_THAT(pieces("a\tb"), ElementsAre("a", "\tb"));
  EXPECT_THAT(pieces("한국어 띄어쓰기"), ElementsAre("한국어", " 띄어쓰기"));
  EXPECT_THAT(pieces("e\u0301a"), ElementsAre("e\u0301a"));
  EXPECT_THAT(pieces(""), IsEmpty());
}

TEST(PieceReader, numbers_come_in_groups_of_three_from_the_left) {
  EXPECT_THAT(pieces("1234567"), ElementsAre("123", "456", "7"));
  EXPECT_THAT(pieces("a12 345"), ElementsAre("a", "12", " ", "345"));
  EXPECT_THAT(pieces("०१२३Ⅷ½"), ElementsAre("०१२", "३Ⅷ½"));
}

TEST(PieceReader, chinese_and_kana_runs_stand_alone) {
  EXPECT_THAT(pieces("a你好b"), ElementsAre("a", "你好", "b"));
  EXPECT_THAT(pieces("カタカナー・ひらがな"), ElementsAre("カタカナー・ひらがな"));
  EXPECT_THAT(pieces("\u9fa5\u9fa6"), ElementsAre("\u9fa5", "\u9fa6"));
  EXPECT_THAT(pieces("  你"), ElementsAre("  ", "你"));
}

TEST(PieceReader, one_punctuation_character_joins_ascii_letters_only) {
  EXPECT_THAT(pieces(".size()"), ElementsAre(".size", "()"));
  EXPECT_THAT(pieces("..size"), ElementsAre("..", "size"));
  EXPECT_THAT(pieces(".가"), ElementsAre(".", "가"));
  EXPECT_THAT(pieces("(été"), ElementsAre("(", "été"));
  EXPECT_THAT(pieces(".abcé"), ElementsAre(".abc", "é"));
  EXPECT_THAT(pieces("。abc"), ElementsAre("。", "abc"));
}

TEST(PieceReader, punctuation_takes_one_space_before_and_line_ends_after) {
  EXPECT_THAT(pieces("a ;\r\n\nb"), ElementsAre("a", " ;\r\n\n", "b"));
  EXPECT_THAT(pieces("\t;"), ElementsAre("\t", ";"));
  EXPECT_THAT(pieces("€+©"), ElementsAre("€+©"));
}

TEST(PieceReader, white_space_runs_end_at_their_last_line_end_or_leave_one_character) {
  EXPECT_THAT(pieces("a   b"), ElementsAre("a", "  ", " b"));
  EXPECT_THAT(pieces("a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
  EXPECT_THAT(pieces("a\nb"), ElementsAre("a", "\n", "b"));
  EXPECT_THAT(pieces("a   "), ElementsAre("a", "   "));
  EXPECT_THAT(pieces("\u3000\u00a0;"), ElementsAre("\u3000", "\u00a0", ";"));
  EXPECT_THAT(pieces("  1"), ElementsAre("  ", "1"));
}

TEST(PieceReader, characters_of_no_class_form_gaps_whose_last_leads_a_word) {
  EXPECT_THAT(pieces(std::string("\x01\x02\x03", 3)), ElementsAre("\x01\x02\x03"));
  EXPECT_THAT(pieces("\x01\x02"
                     "ab"),
              ElementsAre("\x01",
                          "\x02"
                          "ab"));
  EXPECT_THAT(pieces("\x01 a"), ElementsAre("\x01", " a"));
  EXPECT_THAT(pieces("  \x01"), ElementsAre(" ", " ", "\x01"));
}

TEST(PieceReader, bytes_outside_utf8_are_pieces_of_their_own) {
  EXPECT_THAT(pieces("a\xFF\xFE"
                     "b"),
              ElementsAre("a", "\xFF", "\xFE", "b"));
  EXPECT_THAT(pieces("\xED\xA0\x80"), ElementsAre("\xED", "\xA0", "\x80"));
  EXPECT_THAT(pieces("  \xE4\xBD"), ElementsAre("  ", "\xE4", "\xBD"));
}

TEST(UnicodeClass, classes_of_version_16) {
  EXPECT_EQ(unicode_class('a'), kLetter);
  EXPECT_EQ(unicode_class(0x0301), kMark);
  EXPECT_EQ(unicode_class(0x2167), kNumber);
  EXPECT_EQ(unicode_class('_'), kPunctuation);
  EXPECT_EQ(unicode_class('$'), kSymbol);
  EXPECT_EQ(unicode_class(0x3000), kWhiteSpace);
  EXPECT_EQ(unicode_class(0x1C89), kLetter);  // new in 16.0
  EXPECT_EQ(unicode_class(0x10FFFF), 0);
}

TEST(ByteAlphabet, all_bytes_survive_and_a_space_is_written_as_U0120) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  EXPECT_EQ(from_byte_alphabet(to_byte_alphabet(bytes)), bytes);
  EXPECT_EQ(to_byte_alphabet(" a\n"), "ĠaĊ");
  EXPECT_FALSE(from_byte_alphabet("a b"));
  EXPECT_FALSE(from_byte_alphabet("가"));
  EXPECT_FALSE(from_byte_alphabet("\xC4"));
}

}  // namespace
}  // namespace yeoul
