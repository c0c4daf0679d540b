#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace yeoul {

// Finds the first of several stop strings in streamed text, across any borders. Text that could be
// the beginning of a stop string is held back until that is decided. Thread-confined.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  struct Output {
    std::string text;         // safe to show
    bool stopped = false;     // a stop string was found; `text` ends before it, nothing follows
    std::string stop_string;  // which one
  };
  // The match that ends first wins; among those, the longest.
  Output push(std::string_view text);

  // The held-back rest at the end of the stream.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace yeoul
