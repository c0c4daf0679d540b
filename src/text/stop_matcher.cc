#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace yeoul {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (uint32_t stop = 0; stop < stops_.size(); ++stop) insert(stop);
  link();
}

void StopMatcher::insert(uint32_t stop) {
  uint32_t node = 0;
  for (const char byte : stops_[stop]) {
    const auto [entry, is_new] =
        edges_.try_emplace(edge(node, byte), static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.push_back({.parent = node, .byte = byte, .depth = nodes_[node].depth + 1});
    node = entry->second;
  }
  if (node != 0) nodes_[node].stop = stop;
}

// A node's fallback is shallower than the node, so nodes are linked in order of depth.
void StopMatcher::link() {
  std::vector<uint32_t> order(nodes_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [this](uint32_t a, uint32_t b) { return nodes_[a].depth < nodes_[b].depth; });
  for (const uint32_t i : order) {
    Node& node = nodes_[i];
    if (node.depth > 1) node.fallback = follow(nodes_[node.parent].fallback, node.byte);
    if (node.stop == kNone) node.stop = nodes_[node.fallback].stop;
  }
}

uint32_t StopMatcher::follow(uint32_t node, char byte) const {
  for (;;) {
    const auto next = edges_.find(edge(node, byte));
    if (next != edges_.end()) return next->second;
    if (node == 0) return 0;
    node = nodes_[node].fallback;
  }
}

StopMatcher::Output StopMatcher::push(std::string_view text) {
  Output out;
  const auto stop_here = [&] {
    out.stopped = true;
    out.stop_string = stops_[found_];
    return out;
  };
  if (found_ != kNone) return stop_here();
  for (const char byte : text) {
    held_.push_back(byte);
    node_ = follow(node_, byte);
    found_ = nodes_[node_].stop;
    if (found_ == kNone) continue;
    out.text = held_.substr(0, held_.size() - stops_[found_].size());
    held_.clear();
    return stop_here();
  }
  const size_t safe = held_.size() - nodes_[node_].depth;
  out.text = held_.substr(0, safe);
  held_.erase(0, safe);
  return out;
}

std::string StopMatcher::finish() {
  return std::exchange(held_, {});
}

}  // namespace yeoul
