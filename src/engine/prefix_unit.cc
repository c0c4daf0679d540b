#include "engine/prefix_unit.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "base/counter_rng.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace yeoul {

namespace {

static_assert(std::endian::native == std::endian::little,
              "units are written in the machine's byte order, which must be little-endian");

constexpr uint32_t kUnitVersion = 1;
constexpr size_t kHeadBytes = 2 * sizeof(uint32_t) + 2 * sizeof(uint64_t);

// Arbitrary odd constants that keep the two halves of a chain and its kinds of keys apart.
constexpr uint64_t kLowStep = 0xD1B54A32D192ED03ull;
constexpr uint64_t kPageTag = 0x9FB21C651E98DF25ull;
constexpr uint64_t kCompleteTag = 0xA0761D6478BD642Full;
constexpr uint64_t kPartialTag = 0xE7037ED1A0B428DBull;

BlobKey tagged(const BlobKey& state, uint64_t tag) {
  return {mix64(state.high ^ tag), mix64(state.low + tag)};
}

template <typename T>
void append(const T& value, std::vector<uint8_t>& out) {
  const auto* begin = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), begin, begin + sizeof(value));
}

template <typename T>
T read(std::span<const uint8_t> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

}  // namespace

BlobKey prefix_root(std::string_view identity, uint64_t salt) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(identity.data(), identity.size(), salt);
  return {hash.high64, hash.low64};
}

void PrefixChain::append(uint64_t unit) {
  state_.high = mix64(state_.high ^ unit);
  state_.low = mix64(state_.low * kLowStep + unit);
}

BlobKey PrefixChain::page_key() const {
  return tagged(state_, kPageTag);
}

BlobKey PrefixChain::state_key(bool serves_every_rest) const {
  return tagged(state_, serves_every_rest ? kCompleteTag : kPartialTag);
}

bool serves_every_rest(const ResumeShape& shape, std::span<const int64_t> first_valid,
                       int64_t length) {
  return can_resume(shape, first_valid, length, length + 1);
}

int64_t state_note_bytes(int32_t num_layers) {
  return (1 + int64_t{num_layers}) * int64_t{sizeof(int64_t)};
}

void append_state_note(int64_t length, std::span<const int64_t> first_valid,
                       std::vector<uint8_t>& unit) {
  append(length, unit);
  for (const int64_t first : first_valid) append(first, unit);
}

bool parse_state_note(std::span<const uint8_t> bytes, StateNote& note) {
  if (std::ssize(bytes) != state_note_bytes(static_cast<int32_t>(note.first_valid.size())))
    return false;
  note.length = read<int64_t>(bytes, 0);
  std::memcpy(note.first_valid.data(), bytes.data() + sizeof(int64_t),
              bytes.size() - sizeof(int64_t));
  return true;
}

int64_t unit_head_bytes(int64_t num_tokens) {
  return static_cast<int64_t>(kHeadBytes) + num_tokens * int64_t{sizeof(uint64_t)};
}

void append_unit_head(UnitKind kind, const BlobKey& root, std::span<const uint64_t> tokens,
                      std::vector<uint8_t>& unit) {
  append(static_cast<uint32_t>(kind), unit);
  append(kUnitVersion, unit);
  append(root.high, unit);
  append(root.low, unit);
  for (const uint64_t token : tokens) append(token, unit);
}

Result<std::span<const uint8_t>> check_unit_head(UnitKind kind, const BlobKey& root,
                                                 const PrefixUnits& units, int64_t begin,
                                                 int64_t end, std::span<const uint8_t> unit) {
  const auto head_bytes = static_cast<size_t>(unit_head_bytes(end - begin));
  if (unit.size() < head_bytes || read<uint32_t>(unit, 0) != static_cast<uint32_t>(kind))
    return fail(ErrorCode::kCorrupt,
                fmt::format("disk tier: a unit of kind {} and at least {} bytes expected, {} found",
                            static_cast<uint32_t>(kind), head_bytes, unit.size()));
  if (const auto version = read<uint32_t>(unit, 4); version != kUnitVersion)
    return fail(
        ErrorCode::kUnsupported,
        fmt::format("disk tier: a unit of version {} expected, {} found", kUnitVersion, version));
  bool is_same = read<uint64_t>(unit, 8) == root.high && read<uint64_t>(unit, 16) == root.low;
  for (int64_t i = begin; i < end && is_same; ++i)
    is_same = read<uint64_t>(unit, static_cast<size_t>(unit_head_bytes(i - begin))) == units[i];
  if (!is_same)
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("disk tier: a unit of tokens {} to {} is another prompt's", begin, end));
  return unit.subspan(head_bytes);
}

}  // namespace yeoul
