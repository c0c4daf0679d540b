// Derives the Engram token map of a vocabulary and writes it as little-endian int32.
//   text_engram_map TOKENIZER_JSON > MAP

#include <cstdint>
#include <cstdio>

#include "text/engram_token_map.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON > MAP\n", argv[0]);
    return 2;
  }
  const auto tokenizer = yeoul::Tokenizer::load(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  for (const int32_t entry : yeoul::engram_token_map(**tokenizer)) {
    for (int byte = 0; byte < 4; ++byte) {
      std::fputc(static_cast<int>(static_cast<uint32_t>(entry) >> (8 * byte) & 0xFF), stdout);
    }
  }
  return 0;
}
