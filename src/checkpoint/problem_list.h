#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace yeoul {

// Troubles of one kind of check, the first few in words and the rest counted: one run tells most of
// what is wrong with a checkpoint. Thread-confined.
class ProblemList {
 public:
  static constexpr size_t kShownMax = 10;

  void add(std::string message) {
    if (shown_.size() < kShownMax) shown_.push_back(std::move(message));
    ++count_;
  }

  // No problem, or `heading` with the number of problems and one line for each shown.
  Result<void> status(ErrorCode code, const std::string& heading) const {
    if (count_ == 0) return {};
    std::string message = fmt::format("{}: {} problem{}", heading, count_, count_ == 1 ? "" : "s");
    for (const std::string& line : shown_) message += "\n  " + line;
    if (count_ > shown_.size()) message += fmt::format("\n  and {} more", count_ - shown_.size());
    return fail(code, std::move(message));
  }

 private:
  std::vector<std::string> shown_;
  size_t count_ = 0;
};

}  // namespace yeoul
