// Runs a fuzz target without libFuzzer: every seed of a folder and a fixed
// number of mutations of each. The same inputs on every run.
//   NAME CORPUS_FOLDER

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/counter_rng.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr uint64_t kMutationsPerSeed = 200;
constexpr size_t kEditsMax = 4;

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// One to four edits: flip a bit, put a byte, cut a range, copy a range to another place.
std::string mutate(std::string input, uint64_t seed) {
  uint64_t draw = 0;
  const auto next = [&](size_t bound) {
    return static_cast<size_t>(yeoul::counter_bits(seed, draw++) % bound);
  };
  for (size_t edits = next(kEditsMax) + 1; edits > 0; --edits) {
    if (input.empty()) input.push_back(static_cast<char>(next(256)));
    const size_t at = next(input.size());
    const size_t length = std::min(next(32) + 1, input.size() - at);
    switch (next(4)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << next(8)));
        break;
      case 1:
        input[at] = static_cast<char>(next(256));
        break;
      case 2:
        input.erase(at, length);
        break;
      default: {
        const std::string piece = input.substr(at, length);
        input.insert(next(input.size() + 1), piece);
        break;
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> seeds;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    if (entry.is_regular_file()) seeds.push_back(entry.path());
  }
  std::sort(seeds.begin(), seeds.end());
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no seeds\n", argv[1]);
    return 1;
  }
  uint64_t inputs = 0;
  run("");
  for (const std::filesystem::path& path : seeds) {
    std::ifstream file(path, std::ios::binary);
    const std::string seed((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    run(seed);
    for (uint64_t i = 0; i < kMutationsPerSeed; ++i) {
      run(mutate(seed, yeoul::counter_key(inputs, seed.size(), i)));
    }
    inputs += kMutationsPerSeed + 1;
  }
  std::printf("%llu inputs from %zu seeds\n", static_cast<unsigned long long>(inputs),
              seeds.size());
  return 0;
}
