#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace yeoul::simulation {

// What a run of random operations on the prefix index came to.
struct PrefixOracleReport {
  int64_t operations = 0;  // lookups, insertions, evictions, cancellations, failures
  int64_t hits = 0;
  int64_t rows_missing = 0;  // lookups that found a longer snapshot than they could use
  int64_t evictions = 0;
  int64_t replaced = 0;
  int64_t cancelled = 0;     // states reserved and given back
  int64_t failed = 0;        // sequences that ended before they were stored
  int64_t full_rereads = 0;  // prompts computed from nothing though a prefix was resumable
  std::vector<std::string> violations;  // at most a few
};

// Runs at least `num_operations` on a small index, pages and all, from one seed: sequences that
// resume, write on in pages that snapshots share, are stored, cancelled or fail, holds that last,
// evictions in between. Each lookup is compared with an oracle that tries every stored prefix and
// follows the cone backwards row by row; every page is read back wherever it is shared; the
// invariants of index and pages are checked after each operation.
PrefixOracleReport run_prefix_oracle(uint64_t seed, int64_t num_operations);

}  // namespace yeoul::simulation
