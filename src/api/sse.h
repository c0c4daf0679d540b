#pragma once

#include <string>
#include <string_view>

namespace yeoul {

// Server-sent events, appended to `out`. `json` holds no line break (compact JSON never does).
inline void append_sse_data(std::string_view json, std::string& out) {
  out.append("data: ").append(json).append("\n\n");
}

// A comment line, which clients skip; it keeps the connection alive.
inline void append_sse_comment(std::string_view text, std::string& out) {
  out.append(": ").append(text).append("\n\n");
}

inline void append_sse_done(std::string& out) {
  out.append("data: [DONE]\n\n");
}

}  // namespace yeoul
