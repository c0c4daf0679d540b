#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace yeoul {

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
  struct Slot {
    uint64_t pair = ~0ull;
    uint32_t rank = kNoRank;
  };

  uint32_t rank(TokenId left, TokenId right) const;
  void encode_short(std::string_view piece, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, std::vector<TokenId>& out) const;

  std::vector<TokenId> byte_tokens_;  // [256]
  std::vector<Merge> merges_;         // by rank
  std::vector<Slot> slots_;           // open addressing, a power of two, at most half full
};

}  // namespace yeoul
