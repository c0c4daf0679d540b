#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/token.h"

namespace yeoul {

// A tokenizer for checkpoints with made-up weights: byte-level BPE of any size that belongs to no
// language. Ids 0, 1, 2 are begin, end and padding; then the 256 bytes, all pairs of bytes, and
// triples as far as the ids reach; the last 16 ids are the other markers of the chat format, the
// image placeholder among them.
struct PlainTokenizer {
  std::string json;  // tokenizer.json
  TokenId image_token = 0;
};

// kInvalidArgument below 275 ids (bytes and markers) or above 16,843,027 (all triples).
Result<PlainTokenizer> make_plain_tokenizer(int32_t vocab_size);

}  // namespace yeoul
