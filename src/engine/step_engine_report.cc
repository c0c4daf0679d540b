// StepEngine: what it says of its cache (engine/cache_report.h).

#include <algorithm>
#include <utility>

#include "engine/step_engine.h"

namespace yeoul {

namespace {

constexpr Duration kPatience = std::chrono::seconds(30);  // longer than a step

// The least number of tokens behind the state that a prompt resuming from it must have. A longer
// prompt never reads more of the window, so the first length that works is found by halving.
int64_t least_rest(const PrefixIndex& index, int32_t state) {
  const ResumeShape& shape = index.limits().shape;
  const int64_t length = index.length(state);
  int64_t low = 1, high = 1 + int64_t{shape.reach} * (shape.num_layers + 1);
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (can_resume(shape, index.first_valid(state), length, length + middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

CacheReport::State describe(const PrefixIndex& index, const PagePool& pool, int32_t state) {
  const std::span<const int32_t> pages = index.pages(state).pages();
  return {.number = state,
          .length = index.length(state),
          .pages = std::ssize(pages),
          .pages_alone =
              std::ranges::count_if(pages, [&](int32_t page) { return pool.ref_count(page) == 1; }),
          .least_rest = least_rest(index, state),
          .is_held = index.is_held(state)};
}

// Each node before its children, as far as there is room.
void describe_tree(const PrefixIndex& index, const PagePool& pool, CacheReport& report) {
  const PrefixTree& tree = index.tree();
  const auto add = [&](int32_t id, int32_t depth) {
    const PrefixTree::Node& node = tree.node(id);
    report.nodes.push_back({depth, node.begin, node.end, node.num_children, node.snapshot});
    if (node.snapshot >= 0) report.states.push_back(describe(index, pool, node.snapshot));
  };
  for (size_t root = 0; root < tree.nodes().size(); ++root) {
    if (!tree.nodes()[root].is_used || tree.nodes()[root].parent >= 0) continue;
    auto id = static_cast<int32_t>(root);
    int32_t depth = 0;
    while (report.nodes.size() < report.nodes.capacity()) {
      add(id, depth);
      if (const int32_t child = tree.node(id).first_child; child >= 0) {
        id = child;
        ++depth;
        continue;
      }
      while (depth > 0 && tree.node(id).next < 0) {
        id = tree.node(id).parent;
        --depth;
      }
      if (depth == 0) break;
      id = tree.node(id).next;
    }
  }
}

// How many different pages the states hold. `is_counted`: [pages], zeros.
int64_t count_kept_pages(const PrefixIndex& index, std::vector<uint8_t>& is_counted) {
  for (int32_t state = 0; state < index.limits().snapshots_max; ++state) {
    if (!index.is_kept(state)) continue;
    for (const int32_t page : index.pages(state).pages()) is_counted[static_cast<size_t>(page)] = 1;
  }
  return std::ranges::count(is_counted, uint8_t{1});
}

}  // namespace

std::optional<CacheReport> StepEngine::cache_report(size_t nodes_max) const {
  CacheReporter::Storage storage;
  storage.report.nodes.reserve(nodes_max);
  storage.report.states.reserve(nodes_max);
  storage.report.running.reserve(static_cast<size_t>(options_.parallel));
  storage.is_counted.resize(static_cast<size_t>(options_.num_pages));
  return reporter_.ask(std::move(storage), kPatience, [this] { wakeup_->notify(); });
}

void StepEngine::report_cache(CacheReporter::Storage& into) const {
  CacheReport& report = into.report;
  describe_tree(index_, pool_, report);
  report.num_nodes = index_.num_nodes();
  report.states_used = index_.num_snapshots();
  report.states_total = options_.num_snapshots;
  report.pages_kept = count_kept_pages(index_, into.is_counted);
  report.pages_used = pool_.num_used();
  report.pages_total = pool_.num_pages();
  report.waiting = std::ssize(scheduler_.waiting());
  for (const Sequence* sequence : scheduler_.running()) {
    report.running.push_back({.request_id = sequence->spec().request_id,
                              .choice = sequence->spec().choice,
                              .prompt_len = sequence->prompt_len(),
                              .computed_len = sequence->committed_len(),
                              .output_len = std::ssize(sequence->output()),
                              .pages = std::ssize(sequence->page_table().pages()),
                              .is_paused = sequence->is_paused()});
  }
}

}  // namespace yeoul
