#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/token.h"

namespace yeoul {

// From the bytes of a piece to the one token that it is. One look at 16 bytes for pieces of up to 8
// bytes, which most pieces of real text are. Immutable after the last insert; any number of
// threads.
class PieceTable {
 public:
  static constexpr TokenId kNone = -1;

  explicit PieceTable(size_t entries_max);

  // `piece` is not empty and not inserted yet.
  void insert(std::string_view piece, TokenId id);

  // kNone when `piece` was not inserted.
  TokenId find(std::string_view piece) const;

 private:
  // A piece of at most 8 bytes is `word`, little-endian; of a longer one `word` is its place in
  // long_pieces_.
  struct Slot {
    uint64_t word = 0;
    TokenId id = kNone;
    uint32_t length = 0;
  };

  size_t slot_of(std::string_view piece, uint64_t word) const;
  bool holds(const Slot& slot, std::string_view piece, uint64_t word) const;

  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
  std::string long_pieces_;
  size_t length_max_ = 0;
};

}  // namespace yeoul
