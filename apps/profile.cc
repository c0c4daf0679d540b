#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "commands.h"
#include "io/machine.h"
#include "measure/roofs.h"

namespace yeoul {

void add_profile_option(CLI::App& command, ModelArguments& arguments) {
  command.add_flag("--profile", arguments.is_profiled,
                   "Print at the end where the time of the steps went, by operation and by layer, "
                   "beside what the machine can do");
}

MachineRoofs measure_roofs(int num_threads) {
  // Beyond most last-level caches, and given back before the weights come.
  constexpr int64_t kBytesMax = int64_t{512} << 20;
  ThreadPool pool(num_threads);
  const std::vector<uint8_t> memory(
      static_cast<size_t>(std::min(kBytesMax, available_memory_bytes() / 4)), uint8_t{1});
  return {read_roof(pool, memory.data(), memory.size()), bf16_peak(pool)};
}

void print_profile(const RunProfile* profile) {
  if (profile == nullptr) return;
  fmt::print(stderr, "{}", to_string(profile->steps, profile->roofs));
}

}  // namespace yeoul
