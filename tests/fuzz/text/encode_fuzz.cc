// Any bytes as text: the tokens join to the text again, with and without markers, and every id is
// of the vocabulary.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/tokenizer.h"

namespace {

std::shared_ptr<const yeoul::Tokenizer> tokenizer() {
  static const auto loaded = yeoul::Tokenizer::load("models/tiny-random/tokenizer.json");
  CHECK(loaded.has_value(), "{}", loaded.error().message);
  return *loaded;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<yeoul::TokenId> ids;
  tokenizer()->encode_text(text, ids);
  CHECK(tokenizer()->decode(ids) == text);
  for (const yeoul::TokenId id : ids) CHECK(id >= 0 && !tokenizer()->is_marker(id), "{}", id);
  ids.clear();
  tokenizer()->encode_with_markers(text, ids);
  CHECK(tokenizer()->decode(ids) == text);
  for (const yeoul::TokenId id : ids) CHECK(id >= 0 && id < tokenizer()->vocab_size(), "{}", id);
  return 0;
}
