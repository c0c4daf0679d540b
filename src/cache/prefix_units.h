#pragma once

#include <cstdint>
#include <span>

#include "base/token.h"

namespace yeoul {

// The tokens of a sequence as the units of the prefix index: what was asked, then what was
// generated. A unit is 64 bits wide so that a span that is no text can stand there by its hash.
// Borrowed.
class PrefixUnits {
 public:
  PrefixUnits() = default;
  explicit PrefixUnits(std::span<const TokenId> prompt, std::span<const TokenId> output = {})
      : prompt_(prompt), output_(output) {}

  int64_t size() const { return std::ssize(prompt_) + std::ssize(output_); }
  uint64_t operator[](int64_t position) const {
    const auto at = static_cast<size_t>(position);
    const TokenId token = at < prompt_.size() ? prompt_[at] : output_[at - prompt_.size()];
    return static_cast<uint64_t>(token);
  }
  PrefixUnits first(int64_t count) const {
    const auto n = static_cast<size_t>(count);
    if (n <= prompt_.size()) return PrefixUnits(prompt_.first(n));
    return PrefixUnits(prompt_, output_.first(n - prompt_.size()));
  }

 private:
  std::span<const TokenId> prompt_;
  std::span<const TokenId> output_;
};

}  // namespace yeoul
