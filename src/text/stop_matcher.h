#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace yeoul {

// Finds the first of several stop strings in streamed text, across any borders. Text that could be
// the beginning of a stop string is held back until that is decided. An Aho-Corasick automaton:
// constant work a byte, whatever the strings. Thread-confined.
class StopMatcher {
 public:
  // Empty stop strings never match.
  explicit StopMatcher(std::vector<std::string> stops);

  struct Output {
    std::string text;         // safe to show
    bool stopped = false;     // a stop string was found; `text` ends before it, nothing follows
    std::string stop_string;  // which one
  };
  // The match that ends first wins; among those, the longest.
  Output push(std::string_view text);

  // The held-back rest at the end of the stream.
  std::string finish();

 private:
  static constexpr uint32_t kNone = ~0u;
  struct Node {
    uint32_t parent = 0;
    char byte = 0;          // on the edge from the parent
    uint32_t depth = 0;     // length of the prefix that this node stands for
    uint32_t fallback = 0;  // node of its longest proper suffix that is a prefix of a stop string
    uint32_t stop = kNone;  // the longest stop string that ends here
  };

  static uint64_t edge(uint32_t node, char byte) {
    return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
  }
  void insert(uint32_t stop);
  void link();
  uint32_t follow(uint32_t node, char byte) const;

  std::vector<std::string> stops_;
  std::vector<Node> nodes_ = std::vector<Node>(1);  // node 0: nothing matched
  std::unordered_map<uint64_t, uint32_t> edges_;
  uint32_t node_ = 0;
  std::string held_;        // the last nodes_[node_].depth bytes
  uint32_t found_ = kNone;  // index into stops_
};

}  // namespace yeoul
