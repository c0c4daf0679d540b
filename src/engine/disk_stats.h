#pragma once

#include <cstdint>
#include <string>

#include "store/blob_store.h"

namespace yeoul {

// Where the disk tier lies and how much it may take; an empty folder: there is none.
struct DiskTierOptions {
  std::string folder;
  int64_t budget_bytes = int64_t{64} << 30;
};

// Whether a prefix on disk is brought back or computed again.
enum class FetchRule : uint8_t {
  kWhenFaster,  // by the rates measured so far
  kAlways,
};

// Since the engine was created.
struct DiskTierStats {
  BlobStoreStats store;
  int64_t states_written = 0;      // handed to the store
  int64_t states_not_written = 0;  // gone from memory before their turn came
  int64_t restores = 0;            // states that came back
  int64_t restored_tokens = 0;
  int64_t restores_failed = 0;   // a unit was missing, damaged or another prompt's
  int64_t restores_dropped = 0;  // running sequences needed the pages
  int64_t fetches_declined = 0;  // computing the tokens is faster
  double restore_s = 0;          // from decision to state in memory
};

}  // namespace yeoul
