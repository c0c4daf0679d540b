#pragma once

#include <cstddef>
#include <string_view>

namespace yeoul {

// Cuts text into the pieces of the release's three split patterns, which are applied one after the
// other, matches and gaps both becoming pieces (docs/tokenizer.md):
//   1. one to three numbers
//   2. a run of CJK U+4E00-9FA5, Hiragana or Katakana
//   3. punctuation + ASCII letters | a lead character + letters and marks | punctuation | line ends
//   |
//      white space
// One pass, a bounded look at what follows; the pieces join to the text. A byte that is not part of
// well-formed UTF-8 is a piece of its own. Thread-confined; borrows the text.
class PieceReader {
 public:
  explicit PieceReader(std::string_view text) : text_(text) {}

  // The next piece; empty at the end.
  std::string_view next();

 private:
  size_t piece_end() const;
  size_t number_end() const;
  size_t general_end() const;
  size_t white_space_end() const;
  size_t gap_end() const;

  std::string_view text_;
  size_t position_ = 0;
};

}  // namespace yeoul
