#include "base/json.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <vector>

namespace yeoul {
namespace {

// SAX handler that builds the document with nlohmann's own DOM builder and adds our limits.
class StrictBuilder {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  StrictBuilder(Json& root, const JsonLimits& limits) : dom_(root, false), limits_(limits) {}

  bool null() { return dom_.null(); }
  bool boolean(bool value) { return dom_.boolean(value); }
  bool number_integer(number_integer_t value) { return dom_.number_integer(value); }
  bool number_unsigned(number_unsigned_t value) { return dom_.number_unsigned(value); }
  bool number_float(number_float_t value, const string_t& text) {
    return dom_.number_float(value, text);
  }
  bool string(string_t& value) { return dom_.string(value); }
  bool binary(binary_t& value) { return dom_.binary(value); }
  bool start_object(size_t size) {
    keys_.emplace_back();
    return descend() && dom_.start_object(size);
  }
  bool end_object() {
    keys_.pop_back();
    --depth_;
    return dom_.end_object();
  }
  bool start_array(size_t size) { return descend() && dom_.start_array(size); }
  bool end_array() {
    --depth_;
    return dom_.end_array();
  }
  bool key(string_t& name) {
    if (!keys_.back().insert(name).second) {
      error = fmt::format("duplicate key \"{}\"", name);
      return false;
    }
    return dom_.key(name);
  }
  template <typename Exception>
  bool parse_error(size_t position, const std::string& /*token*/, const Exception& exception) {
    std::string_view text =
        exception.what();  // "[json.exception...] parse error at line l, column c: ..."
    const size_t start = text.find("] ");
    if (start != std::string_view::npos) text.remove_prefix(start + 2);
    error = fmt::format("{} (byte {})", text, position);
    return false;
  }

  std::string error;

 private:
  bool descend() {
    if (++depth_ <= limits_.depth_max) return true;
    error = fmt::format("nested deeper than {} levels", limits_.depth_max);
    return false;
  }

  nlohmann::detail::json_sax_dom_parser<Json> dom_;
  JsonLimits limits_;
  size_t depth_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;
};

// As Python's repr: the shortest digits that read back, plain from 1e-4 to below 1e16.
void append_python_float(double value, std::string& out) {
  const double magnitude = std::fabs(value);
  const bool is_plain = value == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  std::array<char, 64> buffer;
  const auto format = is_plain ? std::chars_format::fixed : std::chars_format::scientific;
  const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  const std::string_view digits(buffer.data(), static_cast<size_t>(end - buffer.data()));
  out += digits;
  if (is_plain && digits.find('.') == std::string_view::npos) out += ".0";
}

void append_python_style(const Json& value, std::string& out) {
  switch (value.type()) {
    case Json::value_t::number_float:
      append_python_float(value.get<double>(), out);
      return;
    case Json::value_t::object: {
      out += '{';
      const char* separator = "";
      for (const auto& [key, entry] : value.items()) {
        out += separator;
        out += Json(key).dump(-1, ' ', false, Json::error_handler_t::replace);
        out += ": ";
        append_python_style(entry, out);
        separator = ", ";
      }
      out += '}';
      return;
    }
    case Json::value_t::array: {
      out += '[';
      const char* separator = "";
      for (const Json& entry : value) {
        out += separator;
        append_python_style(entry, out);
        separator = ", ";
      }
      out += ']';
      return;
    }
    default:
      out += dump_compact(value);
      return;
  }
}

}  // namespace

Result<Json> parse_json(std::string_view text, JsonLimits limits) {
  // The parser takes a NUL for the end of its input; JSON has no place where one may stand.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("invalid JSON: NUL byte at {}", nul));
  }
  Json root;
  StrictBuilder builder(root, limits);
  if (!Json::sax_parse(text, &builder)) {
    return fail(ErrorCode::kInvalidArgument, "invalid JSON: " + builder.error);
  }
  return root;
}

std::string dump_python_style(const Json& value) {
  std::string out;
  append_python_style(value, out);
  return out;
}

std::string dump_compact(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace yeoul
