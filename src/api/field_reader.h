#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "api/errors.h"
#include "base/json.h"

namespace yeoul {

// What reading a request body found: the first fault, and the fields nobody asked for.
struct FieldFindings {
  std::optional<ApiError> error;
  std::vector<std::string> ignored;  // paths without indices, each once
};

// A JSON value in a few words, for "expected ..., found ...".
std::string describe(const Json& value);

// Typed access to one JSON object of a request. Every name asked for counts as known; null counts
// as absent. The first fault is kept in the findings and later ones are dropped, so a parser reads
// all fields and looks at the findings once. Thread-confined; borrows both arguments.
class FieldReader {
 public:
  // `path` names the object in messages: empty at the top, "messages[3]" below.
  FieldReader(const Json& object, std::string path, FieldFindings& findings);

  // nullptr when absent or null.
  const Json* find(std::string_view name);

  std::optional<bool> boolean(std::string_view name);
  std::optional<double> number(std::string_view name, double min, double max);
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max);
  std::optional<std::string> text(std::string_view name);
  const Json* array(std::string_view name);
  const Json* object(std::string_view name);

  // Records "NAME: expected EXPECTED, found ...".
  void mismatch(std::string_view name, std::string_view expected, const Json& found);
  // Records a refusal of a field that is known but cannot be honoured.
  void unsupported(std::string_view name, std::string_view why);
  // Refuses `name` unless it is absent, null, or equal to `harmless`.
  void unsupported_unless(std::string_view name, const Json& harmless, std::string_view why);
  // Known and without effect.
  void accept_without_effect(std::initializer_list<std::string_view> names);

  // Call last: fields that were never asked for go to the findings' ignored list.
  void ignore_rest();

  bool failed() const { return findings_.error.has_value(); }
  std::string path_of(std::string_view name) const;

 private:
  const Json& object_;
  const std::string path_;
  FieldFindings& findings_;
  std::unordered_set<std::string> known_;
};

}  // namespace yeoul
