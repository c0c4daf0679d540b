#pragma once

#include <memory>
#include <string>

#include "base/token.h"
#include "text/tokenizer.h"

namespace yeoul {

// Turns a stream of token ids into text without ever splitting a UTF-8 code point: bytes of an
// unfinished code point are held back; bytes that can no longer become one turn into U+FFFD.
// Thread-confined.
class Detokenizer {
 public:
  explicit Detokenizer(std::shared_ptr<const Tokenizer> tokenizer);

  // Text that became complete with this token; may be empty.
  std::string push(TokenId id);

  // What is left at the end of the stream (U+FFFD for an unfinished code point).
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string pending_;  // at most 3 bytes, a proper prefix of a code point
};

}  // namespace yeoul
