// Opens a sparse checkpoint of the release's full size (96,085 tensors in 48 shards) and prints one
// claim as a JSON line.
//   checkpoint_speed open_seconds | total_bytes

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/release_config.h"
#include "support/temporary_folder.h"

namespace yeoul {
namespace {

constexpr double kOpenSecondsGoal = 5;
constexpr uint64_t kReleaseBytes = 510'286'023'000;

Result<void> measure(std::string_view what) {
  const TemporaryFolder folder;
  TRY(write_checkpoint(plan_checkpoint(release_config()), folder.path(), {}));
  const auto start = std::chrono::steady_clock::now();
  TRY_ASSIGN(const auto checkpoint, Checkpoint::open(folder.path()));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (what == "open_seconds") {
    fmt::print(R"({{"name": "checkpoint_full_open_s", "value": {:.3f}, "unit": "s", )"
               R"("goal": "< {}", "holds": {}}})"
               "\n",
               elapsed.count(), kOpenSecondsGoal, elapsed.count() < kOpenSecondsGoal);
  } else {
    const uint64_t num_bytes = checkpoint->totals().num_bytes;
    fmt::print(R"({{"name": "checkpoint_full_bytes", "value": {}, "unit": "bytes", )"
               R"("goal": "= {}", "holds": {}}})"
               "\n",
               num_bytes, kReleaseBytes, num_bytes == kReleaseBytes);
  }
  return {};
}

}  // namespace
}  // namespace yeoul

int main(int argc, char** argv) {
  const std::string_view what = argc == 2 ? argv[1] : "";
  if (what != "open_seconds" && what != "total_bytes") {
    fmt::print(stderr, "usage: {} open_seconds | total_bytes\n", argv[0]);
    return 2;
  }
  const auto outcome = yeoul::measure(what);
  if (!outcome) fmt::print(stderr, "{}\n", outcome.error().message);
  return outcome ? 0 : 1;
}
