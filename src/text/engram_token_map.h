#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace yeoul {

// Engram looks tokens up by what they say, not by how they are written: tokens whose text is equal
// after normalisation share a class (model.md section 4.1). Classes are numbered in the order in
// which they first appear, from 0. [vocab_size]
std::vector<int32_t> engram_token_map(const Tokenizer& tokenizer);

// The text by which a token is classed: NFKC, NFD, marks (general category M) removed, lower case,
// runs of space, tab and line ends made one space, white space at both ends removed; a text that is
// then a single space stays one. Empty when nothing is left.
std::string engram_key(std::string_view text);

}  // namespace yeoul
