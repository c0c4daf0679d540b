#pragma once

#include <cstdint>
#include <span>

#include "base/token.h"

namespace yeoul {

// Decisions about tokens that need text (stop strings, grammars). Declared here, implemented by the
// language side, called by the engine thread between sampling and commit, once per generated token
// and in order. Must not throw, block or take longer than microseconds.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Clears the bits of tokens that may not come next; bit i of word i/64 is token i. Returns false
  // when every token is allowed (the mask is then untouched, and need not be applied).
  virtual bool mask_next(std::span<uint64_t> allowed) = 0;

  enum class Verdict : uint8_t {
    kContinue,
    kEndAfter,  // the sequence ends with this token, finish reason "stop"
    kBroken,    // the constraint cannot go on; the request fails, its neighbours do not notice
  };
  virtual Verdict accept(TokenId token) = 0;
};

}  // namespace yeoul
