#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "text/merge_table.h"

namespace yeoul {

// The three split patterns (docs/tokenizer.md) as Oniguruma expressions; carriage return, line feed
// and the quotation mark are the characters themselves.
inline constexpr std::array<std::string_view, 3> kSplitPatterns = {
    "\\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
    "|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*"
    "|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
};

struct AddedToken {
  TokenId id = 0;
  std::string spelling;
  // The reference library cuts the added tokens out of a text in two rounds: first those without
  // this flag, then, from what is left, those with it.
  bool is_normalized = false;
};

// The checked content of a tokenizer.json: everything that its ids depend on.
struct TokenizerFile {
  std::vector<std::string> entries;  // by id, as written in the file; "" where an id is unused
  std::vector<std::string> bytes;    // by id, what the token stands for
  std::vector<TokenId> byte_tokens;  // [256]
  std::vector<Merge> merges;         // rank order
  std::vector<AddedToken> added_tokens;
};

// kCorrupt where the file contradicts itself, kUnsupported where it asks for something else than
// the release's scheme: byte-level BPE without normalizer, behind the three split patterns.
Result<TokenizerFile> parse_tokenizer_file(std::string_view json);

}  // namespace yeoul
