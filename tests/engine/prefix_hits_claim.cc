// Prints the claim hit_equals_miss for the checkpoints named on the command line, each a folder and
// its Engram map.

#include <fmt/format.h>

#include "engine/prefix_hits.h"

int main(int argc, char** argv) {
  int64_t prompts = 0;
  int64_t hits = 0;
  int64_t disk_hits = 0;
  int64_t violations = 0;
  for (int i = 1; i + 1 < argc; i += 2) {
    const yeoul::PrefixHitReport report =
        yeoul::compare_hits({argv[i], argv[i + 1]}, {37, 128, 255, 256, 257}, 1500);
    prompts += report.prompts;
    hits += report.hits;
    disk_hits += report.disk_hits;
    violations += std::ssize(report.violations);
    for (const std::string& what : report.violations) fmt::print("{}: {}\n", argv[i], what);
  }
  fmt::print(
      R"({{"name": "hit_equals_miss", "value": {}, "unit": "differences from cold runs in {} )"
      R"(prompts, {} of them hits, {} of these from disk", "goal": 0, "holds": {}}})"
      "\n",
      violations, prompts, hits, disk_hits, violations == 0 && hits > disk_hits && disk_hits > 0);
  return 0;
}
