#include "text/piece_table.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/counter_rng.h"

namespace yeoul {
namespace {

constexpr size_t kWordBytes = 8;

template <typename Word>
uint64_t load(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The bytes of a piece of at most 8 bytes as one word. Two overlapping loads put equal bits into
// the same place, so no loop over the bytes is needed.
uint64_t short_word(std::string_view piece) {
  const size_t n = piece.size();
  const char* bytes = piece.data();
  if (n == kWordBytes) return load<uint64_t>(bytes);
  if (n >= 4) return load<uint32_t>(bytes) | load<uint32_t>(bytes + n - 4) << (8 * (n - 4));
  if (n >= 2) return load<uint16_t>(bytes) | load<uint16_t>(bytes + n - 2) << (8 * (n - 2));
  return static_cast<uint8_t>(bytes[0]);
}

uint64_t long_hash(std::string_view piece) {
  uint64_t hash = piece.size();
  for (size_t at = 0; at + kWordBytes <= piece.size(); at += kWordBytes) {
    hash = mix64(hash ^ load<uint64_t>(piece.data() + at));
  }
  return hash ^ load<uint64_t>(piece.data() + piece.size() - kWordBytes);
}

}  // namespace

PieceTable::PieceTable(size_t entries_max) : slots_(std::bit_ceil(2 * entries_max + 2)) {}

size_t PieceTable::slot_of(std::string_view piece, uint64_t word) const {
  return mix64(word ^ uint64_t{piece.size()} << 56) & (slots_.size() - 1);
}

bool PieceTable::holds(const Slot& slot, std::string_view piece, uint64_t word) const {
  if (slot.length != piece.size()) return false;
  if (piece.size() <= kWordBytes) return slot.word == word;
  return std::memcmp(long_pieces_.data() + slot.word, piece.data(), piece.size()) == 0;
}

void PieceTable::insert(std::string_view piece, TokenId id) {
  CHECK(!piece.empty() && find(piece) == kNone);
  const bool is_short = piece.size() <= kWordBytes;
  const uint64_t word = is_short ? short_word(piece) : long_hash(piece);
  size_t at = slot_of(piece, word);
  while (slots_[at].id != kNone) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {is_short ? word : long_pieces_.size(), id, static_cast<uint32_t>(piece.size())};
  if (!is_short) long_pieces_ += piece;
  length_max_ = std::max(length_max_, piece.size());
}

TokenId PieceTable::find(std::string_view piece) const {
  if (piece.size() > length_max_ || piece.empty()) return kNone;
  const uint64_t word = piece.size() <= kWordBytes ? short_word(piece) : long_hash(piece);
  size_t at = slot_of(piece, word);
  while (slots_[at].id != kNone && !holds(slots_[at], piece, word)) {
    at = (at + 1) & (slots_.size() - 1);
  }
  return slots_[at].id;
}

}  // namespace yeoul
