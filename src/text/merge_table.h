#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace yeoul {

// Token ids and ranks stay below this, so that a pair and its rank fit into one word.
inline constexpr uint32_t kMergeIdsMax = 1 << 21;

// One line of the merge list: two neighbouring tokens become one.
struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

// Byte-level BPE: a piece starts as its bytes; the neighbouring pair with the smallest rank merges
// first, the leftmost of equal ones, until no pair has a rank. Immutable after construction; any
// number of threads.
class MergeTable {
 public:
  // byte_tokens[b]: the token of byte b. merges: in rank order, each pair once.
  MergeTable(const std::vector<TokenId>& byte_tokens, std::vector<Merge> merges);

  // Appends the tokens of `piece`. O(n log n) in its length, whatever it contains.
  void encode(std::string_view piece, std::vector<TokenId>& out) const;

 private:
  static constexpr uint32_t kNoRank = ~0u;

  uint32_t rank(TokenId left, TokenId right) const;
  uint32_t byte_rank(char left, char right) const {
    return byte_ranks_[size_t{static_cast<uint8_t>(left)} << 8 | static_cast<uint8_t>(right)];
  }
  void encode_short(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, std::vector<TokenId>& out) const;

  std::vector<TokenId> byte_tokens_;  // [256]
  std::vector<Merge> merges_;         // by rank
  std::vector<uint32_t> byte_ranks_;  // [256 * 256], rank of each pair of byte tokens
  // Open addressing, a power of two, at most half full: left << 42 | right << 21 | rank.
  std::vector<uint64_t> slots_;
};

}  // namespace yeoul
