#include "checkpoint/config_section.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace yeoul {
namespace {

// Found values in messages: short, and never megabytes of a hostile file.
std::string shorten(const Json& value) {
  constexpr size_t kCharsMax = 60;
  std::string text = dump_compact(value);
  if (text.size() > kCharsMax) text = text.substr(0, kCharsMax) + "...";
  return text;
}

}  // namespace

ConfigSection::ConfigSection(const Json& object, std::string name)
    : object_(object), name_(std::move(name)) {
  if (!object_.is_object()) {
    report(ErrorCode::kCorrupt,
           fmt::format("{}: an object expected, {} found", name_, shorten(object_)));
  }
}

bool ConfigSection::has(const char* key) const {
  return find(key) != nullptr;
}

const Json* ConfigSection::find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto entry = object_.find(key);
  return entry == object_.end() || entry->is_null() ? nullptr : &*entry;
}

const Json* ConfigSection::find_required(const char* key) {
  const Json* value = find(key);
  if (value == nullptr) report(ErrorCode::kCorrupt, fmt::format("{}.{}: missing", name_, key));
  return value;
}

void ConfigSection::report(ErrorCode code, std::string message) {
  if (!error_) error_ = Error{code, std::move(message)};
}

int64_t ConfigSection::checked(const std::string& place, const Json& value, IntegerRange range) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || std::in_range<int64_t>(value.get<uint64_t>())) &&
      value.get<int64_t>() >= range.min && value.get<int64_t>() <= range.max;
  if (fits) return value.get<int64_t>();
  report(ErrorCode::kCorrupt, fmt::format("{}: an integer from {} to {} expected, {} found", place,
                                          range.min, range.max, shorten(value)));
  return range.min;
}

int64_t ConfigSection::integer(const char* key, std::optional<int64_t> fallback,
                               IntegerRange range) {
  const Json* value = fallback ? find(key) : find_required(key);
  if (value == nullptr) return fallback.value_or(range.min);
  return checked(fmt::format("{}.{}", name_, key), *value, range);
}

std::vector<int64_t> ConfigSection::integers(const char* key, IntegerRange range) {
  std::vector<int64_t> list;
  const Json* value = find_required(key);
  if (value == nullptr) return list;
  if (!value->is_array()) {
    report(ErrorCode::kCorrupt,
           fmt::format("{}.{}: a list expected, {} found", name_, key, shorten(*value)));
    return list;
  }
  for (size_t i = 0; i < value->size() && !error_; ++i) {
    list.push_back(checked(fmt::format("{}.{}[{}]", name_, key, i), (*value)[i], range));
  }
  return list;
}

double ConfigSection::number(const char* key, std::optional<double> fallback, double min) {
  const Json* value = fallback ? find(key) : find_required(key);
  if (value == nullptr) return fallback.value_or(min);
  const double found = value->is_number() ? value->get<double>() : NAN;
  if (std::isfinite(found) && std::isfinite(static_cast<float>(found)) && found >= min) {
    return found;
  }
  report(ErrorCode::kCorrupt, fmt::format("{}.{}: a number from {} up expected, {} found", name_,
                                          key, min, shorten(*value)));
  return min;
}

void ConfigSection::allow_flag(const char* key, bool& value) {
  const Json* found = find(key);
  if (found == nullptr) return;
  if (found->is_boolean()) {
    value = found->get<bool>();
    return;
  }
  report(ErrorCode::kCorrupt,
         fmt::format("{}.{}: true or false expected, {} found", name_, key, shorten(*found)));
}

void ConfigSection::expect(const char* key, const Json& expected) {
  if (find_required(key) != nullptr) expect_if_present(key, expected);
}

void ConfigSection::expect_if_present(const char* key, const Json& expected) {
  const Json* found = find(key);
  if (found == nullptr || *found == expected) return;
  report(ErrorCode::kUnsupported, fmt::format("{}.{}: {} expected, {} found", name_, key,
                                              dump_compact(expected), shorten(*found)));
}

}  // namespace yeoul
