#include "api/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace yeoul {
namespace {

constexpr size_t kShownBytesMax = 40;
constexpr size_t kIgnoredMax = 64;  // a hostile body may hold millions of names

// "messages[12].name" -> "messages[].name", so that each name is listed and logged once.
std::string without_indices(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) out += c;
    if (c == '[') inside = true;
  }
  return out;
}

// A prefix of at most kShownBytesMax bytes that does not cut a code point.
std::string_view shown_prefix(std::string_view text) {
  if (text.size() <= kShownBytesMax) return text;
  size_t end = kShownBytesMax;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();  // 5.0 is what some serialisers make of 5
  if (std::trunc(number) != number || std::fabs(number) > 0x1p53) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

std::string describe(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return fmt::format("an object with {} fields", value.size());
    case Json::value_t::array:
      return fmt::format("an array of {}", value.size());
    case Json::value_t::string: {
      const std::string& text = value.get_ref<const std::string&>();
      const std::string_view shown = shown_prefix(text);
      return fmt::format("the string \"{}{}\"", shown, shown.size() < text.size() ? "..." : "");
    }
    default:
      return dump_compact(value);
  }
}

FieldReader::FieldReader(const Json& object, std::string path, FieldFindings& findings)
    : object_(object), path_(std::move(path)), findings_(findings) {}

std::string FieldReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* FieldReader::find(std::string_view name) {
  known_.emplace(name);
  const auto entry = object_.find(name);
  return entry == object_.end() || entry->is_null() ? nullptr : &*entry;
}

void FieldReader::mismatch(std::string_view name, std::string_view expected, const Json& found) {
  if (findings_.error) return;
  const std::string path = path_of(name);
  findings_.error =
      ApiError(ErrorCode::kInvalidArgument,
               fmt::format("{}: expected {}, found {}", path, expected, describe(found)), path);
}

void FieldReader::unsupported(std::string_view name, std::string_view why) {
  if (findings_.error) return;
  const std::string path = path_of(name);
  findings_.error = ApiError(ErrorCode::kUnsupported,
                             fmt::format("{}: known but not supported: {}", path, why), path);
}

void FieldReader::unsupported_unless(std::string_view name, const Json& harmless,
                                     std::string_view why) {
  const Json* value = find(name);
  if (value != nullptr && *value != harmless) unsupported(name, why);
}

void FieldReader::accept_without_effect(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) known_.emplace(name);
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  mismatch(name, "true or false", *value);
  return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name, double min, double max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= min && number <= max) return number;
  }
  mismatch(name, fmt::format("a number from {} to {}", min, max), *value);
  return std::nullopt;
}

std::optional<int64_t> FieldReader::integer(std::string_view name, int64_t min, int64_t max) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = as_integer(*value);
  if (number && *number >= min && *number <= max) return number;
  mismatch(name, fmt::format("an integer from {} to {}", min, max), *value);
  return std::nullopt;
}

std::optional<std::string> FieldReader::text(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  mismatch(name, "a string", *value);
  return std::nullopt;
}

const Json* FieldReader::array(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_array()) return value;
  mismatch(name, "an array", *value);
  return nullptr;
}

const Json* FieldReader::object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  mismatch(name, "an object", *value);
  return nullptr;
}

void FieldReader::ignore_rest() {
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name) || value.is_null()) continue;
    if (findings_.ignored.size() >= kIgnoredMax) return;
    std::string path = without_indices(path_of(shown_prefix(name)));
    if (std::ranges::find(findings_.ignored, path) == findings_.ignored.end()) {
      findings_.ignored.push_back(std::move(path));
    }
  }
}

}  // namespace yeoul
