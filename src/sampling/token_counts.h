#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace yeoul {

// How often each token stands in one sequence, for the penalties. One object a slot, reused by the
// next sequence after reset(). All memory (9 bytes a token of the vocabulary) is taken at
// construction. Thread-confined to the engine thread.
class TokenCounts {
 public:
  explicit TokenCounts(int32_t vocab_size);

  // O(1) a token. Every id must be in the vocabulary.
  void add_prompt(std::span<const TokenId> tokens);
  void add_output(TokenId token);

  // Forgets the sequence. O(distinct tokens seen).
  void reset() noexcept;

  // Distinct tokens of prompt and output, in order of first appearance.
  std::span<const TokenId> seen() const { return seen_; }
  // Occurrences among the output tokens only.
  int32_t output_count(TokenId token) const { return output_counts_[static_cast<size_t>(token)]; }

 private:
  void mark_seen(TokenId token);

  std::vector<int32_t> output_counts_;  // [V]
  std::vector<uint8_t> is_seen_;        // [V]
  std::vector<TokenId> seen_;           // capacity V
};

}  // namespace yeoul
