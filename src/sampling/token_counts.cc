#include "sampling/token_counts.h"

#include "base/check.h"

namespace yeoul {

TokenCounts::TokenCounts(int32_t vocab_size) {
  CHECK(vocab_size > 0, "vocab_size {}", vocab_size);
  output_counts_.resize(static_cast<size_t>(vocab_size));
  is_seen_.resize(static_cast<size_t>(vocab_size));
  seen_.reserve(static_cast<size_t>(vocab_size));
}

void TokenCounts::add_prompt(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) mark_seen(token);
}

void TokenCounts::add_output(TokenId token) {
  mark_seen(token);
  ++output_counts_[static_cast<size_t>(token)];
}

void TokenCounts::reset() noexcept {
  for (const TokenId token : seen_) {
    output_counts_[static_cast<size_t>(token)] = 0;
    is_seen_[static_cast<size_t>(token)] = 0;
  }
  seen_.clear();
}

void TokenCounts::mark_seen(TokenId token) {
  const auto index = static_cast<size_t>(token);
  CHECK(token >= 0 && index < is_seen_.size(), "token {} of a vocabulary of {}", token,
        is_seen_.size());
  if (is_seen_[index]) return;
  is_seen_[index] = 1;
  seen_.push_back(token);
}

}  // namespace yeoul
