#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace yeoul {

// Byte-level BPE tokenizer read from a Hugging Face tokenizer.json: added tokens ("markers") are
// cut out first where the caller asks for it, the rest is split by the three patterns of the
// release (docs/tokenizer.md) and merged by rank. Immutable after construction; any number of
// threads.
class Tokenizer {
 public:
  // Reads tokenizer.json. kCorrupt names the key, the expected and the found.
  static Result<std::shared_ptr<const Tokenizer>> load(const std::string& path);
  static Result<std::shared_ptr<const Tokenizer>> parse(std::string_view json);
  virtual ~Tokenizer() = default;

  // Appends the ids of ordinary text: marker spellings inside it stay text (no prompt injection).
  // Invalid UTF-8 is encoded byte by byte. Linear in the length of `text`.
  virtual void encode_text(std::string_view text, std::vector<TokenId>& out) const = 0;

  // As encode_text, but marker spellings become their tokens, as the reference library does.
  virtual void encode_with_markers(std::string_view text, std::vector<TokenId>& out) const = 0;

  // The id of an added token by its exact spelling.
  virtual std::optional<TokenId> marker(std::string_view spelling) const = 0;
  virtual bool is_marker(TokenId id) const = 0;

  // The bytes a token stands for (marker: its spelling); empty for ids without an entry.
  virtual std::string_view token_bytes(TokenId id) const = 0;

  // The entry of the vocabulary as written in the file (byte-level alphabet; marker: its spelling).
  virtual std::string_view token_entry(TokenId id) const = 0;

  // Highest id + 1.
  virtual int32_t vocab_size() const = 0;

  std::string decode(std::span<const TokenId> ids) const;
};

}  // namespace yeoul
