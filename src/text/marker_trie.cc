#include "text/marker_trie.h"

#include "base/check.h"

namespace yeoul {

void MarkerTrie::insert(std::string_view spelling, TokenId id) {
  CHECK(!spelling.empty());
  uint32_t node = 0;
  for (const char byte : spelling) {
    const auto [entry, is_new] =
        edges_.try_emplace(edge(node, byte), static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back(-1);
    node = entry->second;
  }
  CHECK(nodes_[node] < 0, "\"{}\" inserted twice", spelling);
  nodes_[node] = id;
  begins_a_spelling_[static_cast<uint8_t>(spelling[0])] = true;
}

std::optional<MarkerTrie::Match> MarkerTrie::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_a_spelling_[static_cast<uint8_t>(text[begin])]) continue;
    std::optional<Match> longest;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size(); ++end) {
      const auto entry = edges_.find(edge(node, text[end]));
      if (entry == edges_.end()) break;
      node = entry->second;
      if (nodes_[node] >= 0) longest = Match{begin, end + 1, nodes_[node]};
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

}  // namespace yeoul
