#include "text/utf8.h"

namespace yeoul {
namespace {

struct LeadByte {
  size_t length = 0;  // 0: cannot begin a sequence
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

// Table 3-7 of the Unicode standard.
LeadByte lead_byte(uint8_t byte) {
  if (byte < 0x80) return {.length = 1};
  if (byte < 0xC2) return {};
  if (byte < 0xE0) return {.length = 2};
  if (byte == 0xE0) return {.length = 3, .second_min = 0xA0};
  if (byte == 0xED) return {.length = 3, .second_max = 0x9F};
  if (byte < 0xF0) return {.length = 3};
  if (byte == 0xF0) return {.length = 4, .second_min = 0x90};
  if (byte < 0xF4) return {.length = 4};
  if (byte == 0xF4) return {.length = 4, .second_max = 0x8F};
  return {};
}

}  // namespace

Utf8Step read_utf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {Utf8Kind::kWhole, 1, first};
  const LeadByte lead = lead_byte(first);
  if (lead.length == 0) return {Utf8Kind::kInvalid, 1, 0};
  uint32_t value = first & (0x7Fu >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {Utf8Kind::kUnfinished, i, 0};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.second_min : 0x80;
    const uint8_t high = i == 1 ? lead.second_max : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::kInvalid, i, 0};
    value = value << 6 | (byte & 0x3Fu);
  }
  return {Utf8Kind::kWhole, lead.length, value};
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = read_utf8(text);
    out += step.kind == Utf8Kind::kWhole ? text.substr(0, step.bytes) : kReplacementCharacter;
    text.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace yeoul
