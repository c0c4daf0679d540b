#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cache/prefix_units.h"
#include "cache/resume_rule.h"
#include "store/blob_key.h"

namespace yeoul {

// What the disk tier keeps of prefixes, as units of a store: pages by the tokens up to their end,
// states by the tokens before them. Little-endian.
//
//   page    head, its tokens (u64 each), the rows of the page
//   state   note, head, tokens and rows of the page it ends inside, the state
//   note    length (i64), by layer the first position whose window row it holds (i64)
//   head    kind and version (u32 each), root (16 bytes)
//
// A key is a hash of the root and every token, and a unit repeats the root and those tokens that no
// other unit repeats, so that what is restored is compared with the prompt and not only with a
// hash.

// Everything besides tokens that two prompts must agree on, by name and as the caller's salt.
BlobKey prefix_root(std::string_view identity, uint64_t salt);

// A hash chain over tokens.
class PrefixChain {
 public:
  explicit PrefixChain(const BlobKey& root) : state_(root) {}
  void append(uint64_t unit);
  BlobKey page_key() const;  // the page that ends here
  // A state here. One that serves every rest has another key than one that serves only long rests,
  // because it is worth keeping beside it.
  BlobKey state_key(bool serves_every_rest) const;

 private:
  BlobKey state_;
};

// Whether a state after `length` tokens lets every prompt go on from it.
bool serves_every_rest(const ResumeShape& shape, std::span<const int64_t> first_valid,
                       int64_t length);

struct StateNote {
  int64_t length = 0;
  std::vector<int64_t> first_valid;
};
int64_t state_note_bytes(int32_t num_layers);
void append_state_note(int64_t length, std::span<const int64_t> first_valid,
                       std::vector<uint8_t>& unit);
// False when it is no note of a model with as many layers as note.first_valid has places. Does not
// allocate.
bool parse_state_note(std::span<const uint8_t> bytes, StateNote& note);

// Bytes that precede the rows or the state, besides the note.
int64_t unit_head_bytes(int64_t num_tokens);

enum class UnitKind : uint32_t { kPage = 1, kState = 2 };

void append_unit_head(UnitKind kind, const BlobKey& root, std::span<const uint64_t> tokens,
                      std::vector<uint8_t>& unit);
// What follows the head, once that is exactly the expected one with the tokens [begin, end).
// kCorrupt, kUnsupported.
Result<std::span<const uint8_t>> check_unit_head(UnitKind kind, const BlobKey& root,
                                                 const PrefixUnits& units, int64_t begin,
                                                 int64_t end, std::span<const uint8_t> unit);

}  // namespace yeoul
