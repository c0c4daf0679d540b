// Any bytes as tokenizer.json: refused with a message, or a tokenizer that can encode and decode.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tokenizer = yeoul::Tokenizer::parse({reinterpret_cast<const char*>(data), size});
  if (!tokenizer) {
    CHECK(!tokenizer.error().message.empty());
    return 0;
  }
  constexpr std::string_view text = "ab <think> 12\r\n \xFF";
  std::vector<yeoul::TokenId> ids;
  (*tokenizer)->encode_text(text, ids);
  (*tokenizer)->encode_with_markers(text, ids);
  const std::string twice = (*tokenizer)->decode(ids);
  CHECK(twice == std::string(text) + std::string(text), "decoded \"{}\"", twice);
  return 0;
}
