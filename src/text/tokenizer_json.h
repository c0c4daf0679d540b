#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace yeoul {

// tokenizer.json as written: the two long lists of the model taken out of the document, which keeps
// null in their place. (As ordinary JSON objects their 128,000 keys would cost quadratic time.)
struct TokenizerJson {
  Json document;
  std::vector<std::pair<std::string, uint64_t>> vocab;      // model.vocab, in file order
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges, in rank order
};

// kCorrupt when this is not JSON, a key repeats, or one of the two lists has an entry of another
// type. Merges may be "a b" or ["a", "b"].
Result<TokenizerJson> read_tokenizer_json(std::string_view text);

}  // namespace yeoul
