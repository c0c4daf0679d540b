#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace yeoul {

// The JSON library's message without its own prefix "[json.exception...] ", and with the byte.
inline std::string describe_json_error(size_t position, std::string_view what) {
  const size_t prefix_end = what.find("] ");
  if (prefix_end != std::string_view::npos) what.remove_prefix(prefix_end + 2);
  constexpr size_t kCharsMax = 200;  // the message repeats the text it stumbled over
  return fmt::format("invalid JSON: {} (byte {})", what.substr(0, kCharsMax), position);
}

}  // namespace yeoul
