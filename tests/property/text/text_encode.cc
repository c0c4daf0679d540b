// Encodes documents from standard input for comparison with another implementation.
//   text_encode TOKENIZER_JSON text|markers
// A document is a uint32 length and its bytes; the answer is a uint32 count and int32 ids, all in
// the machine's byte order.

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

int main(int argc, char** argv) {
  const std::string_view mode = argc == 3 ? argv[2] : "";
  if (mode != "text" && mode != "markers") {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON text|markers\n", argv[0]);
    return 2;
  }
  const auto tokenizer = yeoul::Tokenizer::load(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  std::string document;
  std::vector<yeoul::TokenId> ids;
  uint32_t length = 0;
  while (std::fread(&length, sizeof(length), 1, stdin) == 1) {
    document.resize(length);
    if (std::fread(document.data(), 1, length, stdin) != length) {
      std::fprintf(stderr, "the last document is cut off\n");
      return 1;
    }
    ids.clear();
    if (mode == "text") {
      (*tokenizer)->encode_text(document, ids);
    } else {
      (*tokenizer)->encode_with_markers(document, ids);
    }
    const auto count = static_cast<uint32_t>(ids.size());
    std::fwrite(&count, sizeof(count), 1, stdout);
    std::fwrite(ids.data(), sizeof(ids[0]), ids.size(), stdout);
  }
  return 0;
}
