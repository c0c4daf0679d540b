#include "text/utf8.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(Utf8, every_code_point_survives_writing_and_reading) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    const Utf8Step step = read_utf8(text + "x");
    ASSERT_EQ(step.kind, Utf8Kind::kWhole) << std::hex << c;
    ASSERT_EQ(step.bytes, text.size());
    ASSERT_EQ(step.code_point, c);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(read_utf8(text.substr(0, cut)).kind, Utf8Kind::kUnfinished) << std::hex << c;
      ASSERT_EQ(read_utf8(text.substr(0, cut) + "x").bytes, cut);
    }
  }
}

TEST(Utf8, overlong_forms_surrogates_and_too_large_values_are_invalid_from_the_second_byte) {
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                           "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80", "\xFF", "\x80"}) {
    EXPECT_EQ(read_utf8(text).kind, Utf8Kind::kInvalid);
    EXPECT_EQ(read_utf8(text).bytes, 1u);
  }
}

// The example of the Unicode standard, table 3-8 to 3-11: one U+FFFD a maximal subpart.
TEST(Utf8, each_maximal_subpart_becomes_one_replacement_character) {
  EXPECT_EQ(replace_invalid_utf8("a\xF1\x80\x80\xE1\x80\xC2"
                                 "b\x80"
                                 "c\x80\xBF"
                                 "d"),
            "a\uFFFD\uFFFD\uFFFD"
            "b\uFFFD"
            "c\uFFFD\uFFFD"
            "d");
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80\xE2\x82"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("여울"), "여울");
}

}  // namespace
}  // namespace yeoul
