#pragma once

#include <string>
#include <string_view>

#include "server/http.h"

namespace yeoul {

// The path of a request target: without the query, percent-decoded. A broken escape stays as it is.
std::string path_of(std::string_view target);

// Status line and headers up to the empty line. `framing` is the header that says how the body
// ends; `keep` is false when the connection closes after the reply.
std::string format_head(const HttpReply& reply, std::string_view framing, bool keep);

// One piece of a chunked body. `out` must not be empty: an empty chunk is the end.
std::string format_chunk(std::string_view out);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace yeoul
