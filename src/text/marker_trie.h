#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/token.h"

namespace yeoul {

// A set of spellings that finds, in a text, the match that begins first; among matches that begin
// at the same place, the longest. A search costs at most the length of the text times the length of
// the longest spelling. Immutable after the last insert.
class MarkerTrie {
 public:
  // `spelling` is not empty and not inserted yet.
  void insert(std::string_view spelling, TokenId id);

  bool is_empty() const { return nodes_.size() == 1; }

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    TokenId id = 0;
  };
  // The first match that begins at `from` or later.
  std::optional<Match> find(std::string_view text, size_t from) const;

 private:
  static uint64_t edge(uint32_t node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }

  std::vector<TokenId> nodes_{-1};  // id of the spelling that ends here, or -1; node 0 is the root
  std::unordered_map<uint64_t, uint32_t> edges_;
  bool begins_a_spelling_[256] = {};
};

}  // namespace yeoul
