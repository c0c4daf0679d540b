#pragma once

// JSON as the rest of the project uses it: key order kept (it decides prompt bytes), duplicate
// keys, too deep nesting and invalid UTF-8 refused. Include only where JSON is handled: the header
// is heavy.

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace yeoul {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t depth_max = 128;  // nested arrays and objects
};

// Strict RFC 8259. The error names the byte offset and what was wrong there, or the duplicate key.
Result<Json> parse_json(std::string_view text, JsonLimits limits = {});

// Python's json.dumps(value, ensure_ascii=False): ", " and ": " separators. This is what the model
// was trained on wherever JSON stands in a prompt.
std::string dump_python_style(const Json& value);

// Compact JSON for the wire; invalid UTF-8 in strings becomes U+FFFD instead of an exception.
std::string dump_compact(const Json& value);

}  // namespace yeoul
