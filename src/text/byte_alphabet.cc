#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace yeoul {
namespace {

constexpr uint32_t kSymbols = 0x100 + 68;

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<uint32_t, 256> symbol{};
  std::array<int16_t, kSymbols> byte{};  // -1: not in the alphabet
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int16_t& entry : alphabet.byte) entry = -1;
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t symbol = stands_for_itself(byte) ? byte : next++;
    alphabet.symbol[byte] = symbol;
    alphabet.byte[symbol] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

uint32_t byte_symbol(uint8_t byte) {
  return kAlphabet.symbol[byte];
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(byte_symbol(static_cast<uint8_t>(byte)), out);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view entry) {
  std::string out;
  while (!entry.empty()) {
    const Utf8Step step = read_utf8(entry);
    if (step.kind != Utf8Kind::kWhole || step.code_point >= kSymbols) return std::nullopt;
    const int16_t byte = kAlphabet.byte[step.code_point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    entry.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace yeoul
