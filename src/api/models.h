#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/errors.h"

namespace yeoul {

// What GET /v1/models tells. Plain data.
struct ServedModel {
  std::vector<std::string> names;  // the first is what responses carry, the others are aliases
  int64_t created = 0;             // seconds since 1970
  int64_t context_max = 0;         // tokens
};

std::string format_models(const ServedModel& model);
// model_not_found unless `name` is served.
ApiResult<std::string> format_model(const ServedModel& model, std::string_view name);
ApiResult<void> check_model(const ServedModel& model, std::string_view name);

}  // namespace yeoul
