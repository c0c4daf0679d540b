#pragma once

// Character classes of the split patterns (docs/tokenizer.md), Unicode 16.0: the general
// categories L, M, N, P, S and the property White_Space. A code point has at most one of them.

#include <cstddef>
#include <cstdint>

namespace yeoul {

inline constexpr uint8_t kLetter = 1;
inline constexpr uint8_t kMark = 2;
inline constexpr uint8_t kNumber = 4;
inline constexpr uint8_t kPunctuation = 8;
inline constexpr uint8_t kSymbol = 16;
inline constexpr uint8_t kWhiteSpace = 32;

struct UnicodeRange {
  uint32_t first;
  uint32_t last;  // inclusive
  uint8_t unicode_class;
};

// Ascending, disjoint. Generated: unicode_class_table.cc.
extern const UnicodeRange kUnicodeRanges[];
extern const size_t kUnicodeRangeCount;

// One of the classes above, or 0. `code_point` is at most U+10FFFF.
uint8_t unicode_class(uint32_t code_point);

}  // namespace yeoul
