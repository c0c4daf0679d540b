#include "text/merge_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <queue>
#include <utility>

#include "base/check.h"

namespace yeoul {
namespace {

// Up to here rescanning all pairs after each merge is faster than a heap.
constexpr size_t kShortPieceBytes = 48;

constexpr int kIdBits = 21;
static_assert(kMergeIdsMax == 1u << kIdBits);
constexpr uint64_t kEmptySlot = ~0ull;

constexpr uint64_t pair_key(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << kIdBits | static_cast<uint32_t>(right);
}

// One multiplication: the table is looked at more often than anything else here.
constexpr size_t home(uint64_t key, size_t slots) {
  const uint64_t product = key * 0x9E3779B97F4A7C15ull;
  return (product ^ product >> 32) & (slots - 1);
}

}  // namespace

MergeTable::MergeTable(const std::vector<TokenId>& byte_tokens, std::vector<Merge> merges)
    : byte_tokens_(byte_tokens), merges_(std::move(merges)), byte_ranks_(256 * 256) {
  CHECK(byte_tokens_.size() == 256, "{} byte tokens", byte_tokens_.size());
  CHECK(merges_.size() < kMergeIdsMax, "{} merges", merges_.size());
  slots_.assign(std::bit_ceil(2 * merges_.size() + 2), kEmptySlot);
  for (uint32_t rank = 0; rank < merges_.size(); ++rank) {
    const uint64_t key = pair_key(merges_[rank].left, merges_[rank].right);
    size_t at = home(key, slots_.size());
    while (slots_[at] != kEmptySlot) {
      CHECK(slots_[at] >> kIdBits != key, "merge {} repeats an earlier pair", rank);
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = key << kIdBits | rank;
  }
  for (size_t pair = 0; pair < byte_ranks_.size(); ++pair) {
    byte_ranks_[pair] = rank(byte_tokens_[pair >> 8], byte_tokens_[pair & 0xFF]);
  }
}

uint32_t MergeTable::rank(TokenId left, TokenId right) const {
  const uint64_t key = pair_key(left, right);
  for (size_t at = home(key, slots_.size());; at = (at + 1) & (slots_.size() - 1)) {
    const uint64_t slot = slots_[at];
    if (slot >> kIdBits == key) return static_cast<uint32_t>(slot & (kMergeIdsMax - 1));
    if (slot == kEmptySlot) return kNoRank;
  }
}

void MergeTable::encode(std::string_view piece, std::vector<TokenId>& out) const {
  if (piece.size() <= kShortPieceBytes) {
    encode_short(piece, out);
  } else {
    encode_long(piece, out);
  }
}

void MergeTable::encode_short(std::string_view piece, std::vector<TokenId>& out) const {
  std::array<TokenId, kShortPieceBytes> token;
  std::array<uint32_t, kShortPieceBytes> rank_at;  // of the pair (i, i + 1)
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) token[i] = byte_tokens_[static_cast<uint8_t>(piece[i])];
  for (size_t i = 0; i + 1 < count; ++i) rank_at[i] = byte_rank(piece[i], piece[i + 1]);
  while (count > 1) {
    const auto end = rank_at.begin() + static_cast<ptrdiff_t>(count - 1);
    const auto best = std::min_element(rank_at.begin(), end);  // the leftmost smallest
    if (*best == kNoRank) break;
    const auto at = static_cast<size_t>(best - rank_at.begin());
    token[at] = merges_[*best].result;
    --count;
    std::copy(token.begin() + static_cast<ptrdiff_t>(at + 2),
              token.begin() + static_cast<ptrdiff_t>(count + 1),
              token.begin() + static_cast<ptrdiff_t>(at + 1));
    std::copy(best + 1, end, best);
    if (at + 1 < count) rank_at[at] = rank(token[at], token[at + 1]);
    if (at > 0) rank_at[at - 1] = rank(token[at - 1], token[at]);
  }
  out.insert(out.end(), token.begin(), token.begin() + static_cast<ptrdiff_t>(count));
}

// Tokens as a doubly linked list over byte positions; a heap of (rank, position), whose entries are
// stale once the pair at that position has another rank.
void MergeTable::encode_long(std::string_view piece, std::vector<TokenId>& out) const {
  CHECK(piece.size() < ~0u, "piece of {} bytes", piece.size());
  struct Node {
    TokenId token;
    uint32_t rank;  // of the pair (this, next)
    uint32_t previous;
    uint32_t next;
  };
  const auto count = static_cast<uint32_t>(piece.size());
  const uint32_t none = count;
  std::vector<Node> nodes(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes[i] = {byte_tokens_[static_cast<uint8_t>(piece[i])], kNoRank, i == 0 ? none : i - 1,
                i + 1};
  }
  const auto entry = [](uint32_t rank, uint32_t at) { return uint64_t{rank} << 32 | at; };
  std::vector<uint64_t> heap;
  heap.reserve(count);
  for (uint32_t i = 0; i + 1 < count; ++i) {
    nodes[i].rank = byte_rank(piece[i], piece[i + 1]);
    if (nodes[i].rank != kNoRank) heap.push_back(entry(nodes[i].rank, i));
  }
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue(std::greater<>(),
                                                                             std::move(heap));
  const auto rank_pair = [&](uint32_t at) {
    const uint32_t next = nodes[at].next;
    nodes[at].rank = next == none ? kNoRank : rank(nodes[at].token, nodes[next].token);
    if (nodes[at].rank != kNoRank) queue.push(entry(nodes[at].rank, at));
  };
  while (!queue.empty()) {
    const auto best = static_cast<uint32_t>(queue.top() >> 32);
    const auto at = static_cast<uint32_t>(queue.top());
    queue.pop();
    if (nodes[at].rank != best) continue;
    const uint32_t removed = nodes[at].next;
    nodes[at].token = merges_[best].result;
    nodes[at].next = nodes[removed].next;
    nodes[removed].rank = kNoRank;
    if (nodes[at].next != none) nodes[nodes[at].next].previous = at;
    rank_pair(at);
    if (nodes[at].previous != none) rank_pair(nodes[at].previous);
  }
  for (uint32_t i = 0; i != none; i = nodes[i].next) out.push_back(nodes[i].token);
}

}  // namespace yeoul
