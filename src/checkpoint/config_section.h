#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace yeoul {

// Inclusive bounds of an integer field.
struct IntegerRange {
  int64_t min;
  int64_t max;
};

// One object of config.json, read field by field. The first trouble is kept and everything after it
// is ignored, so that a caller reads all its fields and asks once. null counts as absent.
// Thread-confined.
class ConfigSection {
 public:
  // `object` is borrowed for the life of the section; `name` ("text_config") starts every message.
  ConfigSection(const Json& object, std::string name);

  bool has(const char* key) const;

  // A missing required key is kCorrupt.
  template <typename Integer>
  void require(const char* key, Integer& value, IntegerRange range) {
    value = static_cast<Integer>(integer(key, std::nullopt, range));
  }
  template <typename Integer>
  void allow(const char* key, Integer& value, IntegerRange range) {
    value = static_cast<Integer>(integer(key, value, range));
  }
  template <typename Integer>
  void require_list(const char* key, std::vector<Integer>& list, IntegerRange range) {
    list.clear();
    for (const int64_t entry : integers(key, range)) list.push_back(static_cast<Integer>(entry));
  }

  // Finite numbers from `min` up.
  template <typename Number>
  void require_number(const char* key, Number& value, double min) {
    value = static_cast<Number>(number(key, std::nullopt, min));
  }
  template <typename Number>
  void allow_number(const char* key, Number& value, double min) {
    value = static_cast<Number>(number(key, value, min));
  }

  void allow_flag(const char* key, bool& value);

  // Fields that select an algorithm: another value than ours is kUnsupported, not corrupt.
  void expect(const char* key, const Json& expected);
  void expect_if_present(const char* key, const Json& expected);

  const std::optional<Error>& error() const { return error_; }

 private:
  const Json* find(const char* key) const;
  const Json* find_required(const char* key);
  int64_t integer(const char* key, std::optional<int64_t> fallback, IntegerRange range);
  double number(const char* key, std::optional<double> fallback, double min);
  std::vector<int64_t> integers(const char* key, IntegerRange range);
  int64_t checked(const std::string& place, const Json& value, IntegerRange range);
  void report(ErrorCode code, std::string message);

  const Json& object_;
  std::string name_;
  std::optional<Error> error_;
};

}  // namespace yeoul
