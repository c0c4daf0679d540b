#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace yeoul {

// How fast the disk under a checkpoint gives its bytes. Reads only; the files are left as they are.
struct DiskFigures {
  std::string file;              // what was read: the largest file of the folder
  std::string filesystem;        // "ext4/xfs/...": only kinds that matter are told apart
  bool is_network = false;       // NFS, CIFS, FUSE and the like
  bool is_direct = false;        // around the page cache; else the figures may be the cache's
  double latency_s = 0;          // one 4 KiB read, nothing else under way; the median
  double reads_per_s = 0;        // 4 KiB reads at random places, `threads` at once
  double small_bytes_per_s = 0;  // 64 KiB reads at random places, `threads` at once
  double bytes_per_s = 0;        // 1 MiB reads one behind the other, `threads` at once
  int threads = 0;
};

// Reads from the largest regular file below `folder` for about `seconds` in all. kNotFound when
// there is none; kUnavailable when a read fails.
Result<DiskFigures> measure_disk(const std::string& folder, double seconds);

}  // namespace yeoul
