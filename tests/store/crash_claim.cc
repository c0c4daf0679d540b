// crash_claim: the claim "crash". Power cuts in this process on a file system in memory, and
// processes of its own that it kills.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "speed/claim_row.h"
#include "store/store_life.h"
#include "support/temporary_folder.h"

namespace {

constexpr uint64_t kSeed = 20261201;
constexpr int kLives = 400;
constexpr int kCutsOfOne = 3;
constexpr int kKills = 40;
constexpr int64_t kPointsMin = 1000;

// The memory file system where there is one: what the power takes is made up anyway.
std::string scratch_root() {
  const std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  return std::filesystem::is_directory(memory, error)
             ? memory.string()
             : std::filesystem::temp_directory_path().string();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace yeoul;
  if (argc == 5 && std::string_view(argv[1]) == "--put-until-killed") {
    put_until_killed(argv[2], std::atoi(argv[3]), std::strtoull(argv[4], nullptr, 10));
    return 0;
  }
  spdlog::set_level(spdlog::level::off);  // thousands of failures, all of them made up
  LifeOutcome all;
  for (uint64_t life = 0; life < kLives; ++life) {
    const TemporaryFolder folder(scratch_root());
    all += live_through_power_cuts(folder.path(), kSeed + life, kCutsOfOne);
  }
  const TemporaryFolder folder(scratch_root());
  all += live_through_kills(argv[0], folder.path(), kSeed, kKills);
  fmt::print(
      stderr,
      "{} points: {} units checked, {} durable ones expected, {} wrong, {} lost, {} stores lost\n",
      all.points, all.checked_units, all.durable_units, all.wrong_units, all.lost_units,
      all.failed_opens);
  const auto violations = static_cast<double>(all.violations());
  const bool holds = all.violations() == 0 && all.points >= kPointsMin && all.checked_units > 0;
  speed::print_row("crash", violations, "violations", "0", holds);
  return holds ? 0 : 1;
}
