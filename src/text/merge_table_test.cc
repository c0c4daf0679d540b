#include "text/merge_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <string>

namespace yeoul {
namespace {

std::vector<TokenId> byte_ids() {
  std::vector<TokenId> ids(256);
  for (int byte = 0; byte < 256; ++byte) ids[static_cast<size_t>(byte)] = byte;
  return ids;
}

// The definition: the neighbouring pair of the smallest rank merges, the leftmost first.
std::vector<TokenId> encode_by_definition(const std::vector<Merge>& merges,
                                          std::string_view piece) {
  std::map<std::pair<TokenId, TokenId>, size_t> ranks;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    ranks[{merges[rank].left, merges[rank].right}] = rank;
  }
  std::vector<TokenId> ids;
  for (const char byte : piece) ids.push_back(static_cast<uint8_t>(byte));
  for (;;) {
    size_t best = merges.size();
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found == ranks.end() || found->second >= best) continue;
      best = found->second;
      at = i;
    }
    if (best == merges.size()) return ids;
    ids[at] = merges[best].result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(at) + 1);
  }
}

TEST(MergeTable, smaller_ranks_merge_first_and_ties_from_the_left) {
  const MergeTable table(byte_ids(), {{'b', 'c', 300}, {'a', 'b', 301}, {'a', 'a', 302}});
  std::vector<TokenId> ids;
  table.encode("abc", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{'a', 300}));
  ids.clear();
  table.encode("aaa", ids);
  EXPECT_EQ(ids, (std::vector<TokenId>{302, 'a'}));
}

TEST(MergeTable, short_and_long_pieces_follow_the_definition) {
  rc::check([] {
    std::vector<Merge> merges;
    std::map<std::pair<TokenId, TokenId>, bool> known;
    const int count = *rc::gen::inRange(1, 30);
    for (TokenId result = 256; result < 256 + count; ++result) {
      const auto part = rc::gen::oneOf(rc::gen::inRange<TokenId>('a', 'd'),
                                       rc::gen::inRange<TokenId>(255, result));
      const Merge merge{std::max<TokenId>(*part, 'a'), std::max<TokenId>(*part, 'a'), result};
      if (!known.emplace(std::pair(merge.left, merge.right), true).second) continue;
      merges.push_back(merge);
    }
    const auto length = *rc::gen::inRange<size_t>(0, 200);
    const auto piece = *rc::gen::container<std::string>(length, rc::gen::inRange<char>('a', 'd'));
    std::vector<TokenId> ids;
    MergeTable(byte_ids(), merges).encode(piece, ids);
    RC_ASSERT(ids == encode_by_definition(merges, piece));
  });
}

}  // namespace
}  // namespace yeoul
