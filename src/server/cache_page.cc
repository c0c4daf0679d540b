#include "server/cache_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/json.h"

namespace yeoul {

namespace {

std::string describe(const CacheReport::State& state) {
  return fmt::format(
      "  state {}: {} pages, {} alone; serves {}{}", state.number, state.pages, state.pages_alone,
      state.least_rest <= 1 ? "every rest" : fmt::format("rests from {} tokens", state.least_rest),
      state.is_held ? "; held" : "");
}

// One line for each node. left[d]: children of the node at depth d that are still to come.
void draw_nodes(const CacheReport& report, std::string& out) {
  std::vector<int32_t> left;
  size_t next_state = 0;
  for (const CacheReport::Node& node : report.nodes) {
    const auto depth = static_cast<size_t>(node.depth);
    left.resize(depth + 1);
    for (size_t d = 1; d < depth; ++d) out += left[d - 1] > 0 ? "|  " : "   ";
    if (depth > 0) out += --left[depth - 1] > 0 ? "|- " : "`- ";
    left[depth] = node.num_children;
    if (depth == 0) {
      out += "cache_salt";
    } else {
      fmt::format_to(std::back_inserter(out), "{}..{} ({} tokens)", node.begin, node.end,
                     node.end - node.begin);
    }
    if (node.state >= 0) out += describe(report.states[next_state++]);
    out += '\n';
  }
  if (report.num_nodes > std::ssize(report.nodes))
    fmt::format_to(std::back_inserter(out), "... {} more nodes\n",
                   report.num_nodes - std::ssize(report.nodes));
}

Json to_json(const CacheReport::State& state) {
  return Json{{"number", state.number},         {"length", state.length},
              {"pages", state.pages},           {"pages_alone", state.pages_alone},
              {"least_rest", state.least_rest}, {"is_held", state.is_held}};
}

}  // namespace

std::string draw_cache(const CacheReport& report) {
  std::string out = fmt::format(
      "{} of {} states, {} nodes; {} of {} pages used, {} by states\n{} running, {} waiting\n",
      report.states_used, report.states_total, report.num_nodes, report.pages_used,
      report.pages_total, report.pages_kept, report.running.size(), report.waiting);
  for (const CacheReport::Running& running : report.running) {
    fmt::format_to(
        std::back_inserter(out),
        "  request {} choice {}: {} of {} prompt tokens computed; {} generated; {} pages{}\n",
        running.request_id, running.choice, std::min(running.computed_len, running.prompt_len),
        running.prompt_len, running.output_len, running.pages,
        running.is_paused ? "; paused, its reader is behind" : "");
  }
  draw_nodes(report, out);
  return out;
}

std::string format_cache(const CacheReport& report) {
  Json nodes = Json::array(), running = Json::array();
  size_t next_state = 0;
  for (const CacheReport::Node& node : report.nodes) {
    Json entry{{"depth", node.depth},
               {"begin", node.begin},
               {"end", node.end},
               {"num_children", node.num_children}};
    if (node.state >= 0) entry["state"] = to_json(report.states[next_state++]);
    nodes.push_back(std::move(entry));
  }
  for (const CacheReport::Running& one : report.running) {
    running.push_back(Json{{"request_id", one.request_id},
                           {"choice", one.choice},
                           {"prompt_tokens", one.prompt_len},
                           {"computed_tokens", one.computed_len},
                           {"output_tokens", one.output_len},
                           {"pages", one.pages},
                           {"is_paused", one.is_paused}});
  }
  return dump_compact(Json{
      {"states", {{"used", report.states_used}, {"total", report.states_total}}},
      {"pages",
       {{"used", report.pages_used}, {"kept", report.pages_kept}, {"total", report.pages_total}}},
      {"running", std::move(running)},
      {"waiting", report.waiting},
      {"num_nodes", report.num_nodes},
      {"nodes", std::move(nodes)}});
}

}  // namespace yeoul
