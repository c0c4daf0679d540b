// Prints the claims of the prefix index, one JSON line each.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/counter_rng.h"
#include "cache/prefix_index.h"
#include "prefix_oracle.h"

namespace {

using namespace yeoul;
using namespace yeoul::simulation;

void index_oracle() {
  constexpr uint64_t kSeeds = 100;
  constexpr int64_t kOperationsPerSeed = 10'000;
  int64_t operations = 0;
  int64_t wrong = 0;
  for (uint64_t seed = 1'000; seed < 1'000 + kSeeds; ++seed) {
    const PrefixOracleReport report = run_prefix_oracle(seed, kOperationsPerSeed);
    operations += report.operations;
    wrong += std::ssize(report.violations) + report.full_rereads;
    for (const std::string& what : report.violations) fmt::print("seed {}: {}\n", seed, what);
  }
  fmt::print(
      R"({{"name": "index_oracle", "value": {}, "unit": "violations and full re-reads in {} )"
      R"(operations, {} seeds", "goal": 0, "holds": {}}})"
      "\n",
      wrong, operations, kSeeds, wrong == 0 && operations >= 1'000'000);
}

// A tree of 100,000 nodes: chats of a few turns below shared beginnings, one of them very long.
// Times a lookup of that one, as admission does it.
void lookup_cost() {
  constexpr int32_t kSnapshots = 80'000;
  constexpr int32_t kTokensPerPage = 256;
  constexpr int64_t kLong = 100'000;
  const ResumeShape shape{.num_layers = 40, .last_source = 20, .reach = 127};
  PagePool pool(kSnapshots + 1000);
  PrefixIndex index(pool, {.shape = shape,
                           .tokens_per_page = kTokensPerPage,
                           .snapshots_max = kSnapshots,
                           .length_max = kLong + 1});
  const std::vector<int64_t> valid(40, 0);
  std::vector<TokenId> prompt;
  for (int64_t i = 0; i < kLong; ++i)
    prompt.push_back(static_cast<TokenId>(mix64(static_cast<uint64_t>(i)) % 129'280));
  PageTable whole(pool);
  // Shares the first `num_shared` pages of the long prompt.
  const auto keep = [&](const std::vector<TokenId>& units, size_t num_shared) {
    PageTable table(pool);
    table.share_prefix(whole, num_shared);
    while (std::ssize(table.pages()) < pages_for(std::ssize(units), kTokensPerPage))
      table.append(*pool.try_take());
    index.insert(*index.reserve_number(), 1, PrefixUnits(units), table, valid);
  };
  while (std::ssize(whole.pages()) < pages_for(kLong, kTokensPerPage))
    whole.append(*pool.try_take());
  keep(prompt, whole.size());
  // Branches all along the long prompt, many more near its beginning, and among the branches.
  std::vector<TokenId> units;
  for (uint64_t i = 0; index.num_snapshots() < kSnapshots; ++i) {
    const uint64_t fork = mix64(i) % (i < 2000 ? kLong : 200);
    units.assign(prompt.begin(), prompt.begin() + static_cast<ptrdiff_t>(fork));
    for (uint64_t j = 0; j < 1 + mix64(i) % 40; ++j)
      units.push_back(static_cast<TokenId>(200'000 + mix64(i * 64 + j) % 100));
    keep(units, fork / kTokensPerPage);
  }
  prompt.push_back(1);
  std::vector<double> micros;
  for (int i = 0; i < 201; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const PrefixLookup found = index.lookup(1, PrefixUnits(prompt));
    micros.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
            .count());
    CHECK(found.match.resume_len == kLong, "resumes at {}", found.match.resume_len);
  }
  std::ranges::sort(micros);
  const double median = micros[micros.size() / 2];
  fmt::print(
      R"({{"name": "lookup_cost", "value": {:.0f}, "unit": "us for a prompt of {} tokens in )"
      R"(a tree of {} nodes, median of {}, 99th percentile {:.0f}", "goal": "<= 1000", )"
      R"("holds": {}}})"
      "\n",
      median, kLong, index.num_nodes(), micros.size(), micros[micros.size() * 99 / 100],
      median <= 1000 && index.num_nodes() >= 100'000);
}

}  // namespace

int main() {
  index_oracle();
  lookup_cost();
  return 0;
}
