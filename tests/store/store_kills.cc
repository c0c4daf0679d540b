// Real processes, killed.

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "store/fault_file_system.h"
#include "store/made_units.h"
#include "store/store_life.h"

namespace yeoul {

namespace {

// Numbers of one process's units begin here, so that those of the next differ.
constexpr uint64_t kNumbersOfOne = 1 << 20;

BlobStoreOptions options_of(const std::string& folder) {
  return {.folder = folder,
          .budget_bytes = 256 << 20,
          .unit_bytes_max = kMadeUnitBytesMax,
          .queue_max = 4,
          .sync_interval = std::chrono::milliseconds(20)};
}

// The last number the process has reported as durable; it is killed after `patience`.
uint64_t run_and_kill(const std::string& program, const std::string& folder, uint64_t seed,
                      std::chrono::microseconds patience) {
  std::array<int, 2> pipe_ends;
  CHECK(::pipe(pipe_ends.data()) == 0);
  const std::string pipe = fmt::format("{}", pipe_ends[1]);
  const std::string seed_text = fmt::format("{}", seed);
  std::vector<std::string> words = {program, "--put-until-killed", folder, pipe, seed_text};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  CHECK(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments.data(), environ) == 0);
  ::close(pipe_ends[1]);
  std::this_thread::sleep_for(patience);
  ::kill(child, SIGKILL);
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && WIFSIGNALED(status), "status {}", status);
  uint64_t durable = 0;
  for (uint64_t number = 0; ::read(pipe_ends[0], &number, sizeof(number)) == sizeof(number);)
    durable = number;
  ::close(pipe_ends[0]);
  return durable;
}

}  // namespace

void put_until_killed(const std::string& folder, int pipe, uint64_t seed) {
  Result<std::unique_ptr<BlobStore>> store = BlobStore::open(options_of(folder));
  CHECK(store, "{}", store.error().message);
  CaseRng rng(seed);
  for (uint64_t number = seed * kNumbersOfOne;; ++number) {
    put_made(**store, number);
    if (rng.below(8) != 0) continue;
    CHECK((*store)->sync());
    CHECK(::write(pipe, &number, sizeof(number)) == sizeof(number));
  }
}

LifeOutcome live_through_kills(const std::string& program, const std::string& scratch,
                               uint64_t seed, int kills) {
  LifeOutcome outcome;
  CaseRng rng(seed);
  const std::string folder = scratch + "/killed";
  std::vector<uint8_t> scratch_unit;
  for (int i = 0; i < kills; ++i) {
    const uint64_t run = seed + static_cast<uint64_t>(i) + 1;
    const uint64_t durable =
        run_and_kill(program, folder, run, std::chrono::microseconds(rng.below(150'000)));
    ++outcome.points;
    Result<std::unique_ptr<BlobStore>> found = BlobStore::open(options_of(folder));
    if (!found) {
      fmt::print(stderr, "kill {}: {}\n", i, found.error().message);
      ++outcome.failed_opens;
      return outcome;
    }
    for (uint64_t number = run * kNumbersOfOne; durable != 0 && number <= durable; ++number) {
      ++outcome.durable_units;
      outcome.lost_units += !(*found)->contains(made_key(number));
    }
    std::vector<uint64_t> numbers;
    (*found)->for_each([&](const BlobKey&, std::span<const uint8_t> note) {
      numbers.push_back(number_of(note.data()));
    });
    for (const uint64_t number : numbers) {
      outcome.wrong_units += !has_made(**found, number, scratch_unit);
      ++outcome.checked_units;
    }
  }
  return outcome;
}

}  // namespace yeoul
