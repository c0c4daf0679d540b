#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace yeoul {

// What is known of prompts and who computes, between two steps, as plain data: lengths and counts,
// no text and no token. Positions and lengths are tokens.
struct CacheReport {
  // The tree of known prefixes, each node before its children. Edges below a root are [begin, end).
  struct Node {
    int32_t depth = 0;  // 0: the root of one cache_salt
    int64_t begin = 0;
    int64_t end = 0;
    int32_t num_children = 0;
    int32_t state = -1;  // number of the state kept at `end`, or -1
  };
  // A state that a prompt can go on from, of the nodes above and in their order.
  struct State {
    int32_t number = 0;
    int64_t length = 0;
    int64_t pages = 0;
    int64_t pages_alone = 0;  // of them, those that nothing else holds
    int64_t least_rest = 0;   // tokens that must follow: a shorter rest would read rows it lacks
    bool is_held = false;     // somebody goes on from it at this moment
  };
  struct Running {
    uint64_t request_id = 0;
    int32_t choice = 0;
    int64_t prompt_len = 0;
    int64_t computed_len = 0;
    int64_t output_len = 0;
    int64_t pages = 0;
    bool is_paused = false;
  };

  std::vector<Node> nodes;
  std::vector<State> states;
  std::vector<Running> running;
  int64_t num_nodes = 0;    // all; more than nodes.size() when there are more than were asked for
  int64_t states_used = 0;  // all
  int64_t states_total = 0;
  int64_t pages_kept = 0;  // different pages that states hold
  int64_t pages_used = 0;  // by states and by running sequences
  int64_t pages_total = 0;
  int64_t waiting = 0;  // sequences
};

}  // namespace yeoul
