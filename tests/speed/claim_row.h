#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

namespace yeoul::speed {

// One JSON line for tools/claims.py.
inline void print_row(std::string_view name, double value, std::string_view unit,
                      std::string_view goal, bool holds) {
  fmt::print(R"({{"name": "{}", "value": {:.6g}, "unit": "{}", "goal": "{}", "holds": {}}})"
             "\n",
             name, value, unit, goal, holds);
  std::fflush(stdout);
}

}  // namespace yeoul::speed
