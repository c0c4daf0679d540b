#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace yeoul {

// The byte-level alphabet of GPT-2: every byte is written as one printable character. Bytes that
// are printable in Latin-1 stand for themselves, the 68 others are U+0100.. in byte order.

// The code point that stands for `byte`.
uint32_t byte_symbol(uint8_t byte);

// `bytes` written in the alphabet, as UTF-8.
std::string to_byte_alphabet(std::string_view bytes);

// The bytes that `entry` spells; empty optional when a character is not of the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view entry);

}  // namespace yeoul
