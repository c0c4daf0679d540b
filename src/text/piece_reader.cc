#include "text/piece_reader.h"

#include <array>
#include <cstdint>

#include "text/unicode_class.h"
#include "text/utf8.h"

namespace yeoul {
namespace {

// What the scanner needs to know of a character, as bits; several may be set.
constexpr uint8_t kWord = kLetter | kMark;
constexpr uint8_t kPunct = kPunctuation | kSymbol;
constexpr uint8_t kKana = 64;     // second pattern
constexpr uint8_t kBroken = 128;  // a byte outside well-formed UTF-8
// Where a piece of the third pattern ends at the latest: the earlier patterns have cut there.
constexpr uint8_t kCut = kNumber | kKana | kBroken;

struct Character {
  uint8_t kind = kBroken;  // at the end of the text: kBroken, bytes 0
  uint8_t bytes = 0;
};

std::array<uint8_t, 128> make_ascii_kinds() {
  std::array<uint8_t, 128> kinds{};
  for (uint32_t c = 0; c < 128; ++c) kinds[c] = unicode_class(c);
  return kinds;
}

const std::array<uint8_t, 128> kAsciiKinds = make_ascii_kinds();

bool in_kana_pattern(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

Character character_at(std::string_view text, size_t position) {
  if (position >= text.size()) return {};
  const auto first = static_cast<uint8_t>(text[position]);
  if (first < 0x80) return {kAsciiKinds[first], 1};
  const Utf8Step step = read_utf8(text.substr(position));
  if (step.kind != Utf8Kind::kWhole) return {kBroken, 1};
  const uint8_t kind = in_kana_pattern(step.code_point) ? kKana : unicode_class(step.code_point);
  return {kind, static_cast<uint8_t>(step.bytes)};
}

bool is_line_end(char c) {
  return c == '\r' || c == '\n';
}
bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// End of the run of characters of any of `kinds` that begins at `position`.
size_t run_end(std::string_view text, size_t position, uint8_t kinds) {
  for (;;) {
    const Character c = character_at(text, position);
    if (c.bytes == 0 || (c.kind & kinds) == 0) return position;
    position += c.bytes;
  }
}

}  // namespace

std::string_view PieceReader::next() {
  if (position_ == text_.size()) return {};
  const size_t begin = position_;
  position_ = piece_end();
  return text_.substr(begin, position_ - begin);
}

size_t PieceReader::piece_end() const {
  const Character first = character_at(text_, position_);
  if ((first.kind & kBroken) != 0) return position_ + 1;
  if ((first.kind & kNumber) != 0) return number_end();
  if ((first.kind & kKana) != 0) return run_end(text_, position_, kKana);
  return general_end();
}

size_t PieceReader::number_end() const {
  size_t end = position_;
  for (int count = 0; count < 3; ++count) {
    const Character c = character_at(text_, end);
    if ((c.kind & kNumber) == 0) break;
    end += c.bytes;
  }
  return end;
}

// The third pattern, its alternatives in the order of the expression.
size_t PieceReader::general_end() const {
  const char front = text_[position_];
  const Character first = character_at(text_, position_);
  const size_t second_at = position_ + first.bytes;
  const bool is_ascii_punct = first.bytes == 1 && (first.kind & kPunct) != 0;
  if (is_ascii_punct && second_at < text_.size() && is_ascii_letter(text_[second_at])) {
    size_t end = second_at + 1;
    while (end < text_.size() && is_ascii_letter(text_[end])) ++end;
    return end;
  }
  if ((first.kind & kWord) != 0) return run_end(text_, second_at, kWord);
  const Character second = character_at(text_, second_at);
  const bool may_lead_a_word = (first.kind & kPunct) == 0 && !is_line_end(front);
  if (may_lead_a_word && (second.kind & kWord) != 0) return run_end(text_, second_at, kWord);
  if ((first.kind & kPunct) != 0 || (front == ' ' && (second.kind & kPunct) != 0)) {
    size_t end = run_end(text_, second_at, kPunct);
    while (end < text_.size() && is_line_end(text_[end])) ++end;
    return end;
  }
  return (first.kind & kWhiteSpace) != 0 ? white_space_end() : gap_end();
}

// A run of white space: up to its last line end; without one, all of it at the end of the general
// text, else all but its last character, which belongs to what follows.
size_t PieceReader::white_space_end() const {
  size_t end = position_;
  size_t last_at = position_;
  size_t line_end = position_;
  Character c = character_at(text_, end);
  while ((c.kind & kWhiteSpace) != 0) {
    if (is_line_end(text_[end])) line_end = end + 1;
    last_at = end;
    end += c.bytes;
    c = character_at(text_, end);
  }
  if (line_end != position_) return line_end;
  return (c.kind & kCut) != 0 || last_at == position_ ? end : last_at;
}

// Characters that no alternative takes (controls, unassigned); the last one leads a following word.
size_t PieceReader::gap_end() const {
  size_t end = position_;
  Character c = character_at(text_, end);
  do {
    end += c.bytes;
    c = character_at(text_, end);
    const bool leads_a_word = c.kind == 0 && (character_at(text_, end + c.bytes).kind & kWord) != 0;
    if (leads_a_word) return end;
  } while (c.kind == 0);
  return end;
}

}  // namespace yeoul
