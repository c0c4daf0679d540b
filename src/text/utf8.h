#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace yeoul {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8Kind : uint8_t {
  kWhole,       // a well-formed sequence
  kUnfinished,  // the text ends inside what may become a well-formed sequence
  kInvalid,     // can no longer become one
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::kInvalid;
  // kWhole: the sequence. kUnfinished: all of the text. kInvalid: the maximal subpart, which is
  // what one U+FFFD replaces (Unicode standard, section 3.9): at least 1.
  size_t bytes = 1;
  uint32_t code_point = 0;  // kWhole only
};

// What stands at the front of `text`, which is not empty. Overlong forms, surrogates and values
// above U+10FFFF are not well-formed.
Utf8Step read_utf8(std::string_view text);

void append_utf8(uint32_t code_point, std::string& out);

// `text` with one U+FFFD for each maximal subpart that is not well-formed.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace yeoul
