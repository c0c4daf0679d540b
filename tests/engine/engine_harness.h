#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/disk_tier.h"
#include "engine/engine.h"
#include "engine/model_executor.h"

namespace yeoul {

struct EngineHarnessOptions {
  int32_t parallel = 16;
  int32_t step_tokens_max = 64;
  int num_threads = 1;
  int64_t context_max = 1024;
  StepProfile* profile = nullptr;
  bool prefix_cache = false;
  int64_t snapshot_interval = 0;
  std::string cache_folder;  // keeps prefixes on disk; empty: nothing does
  std::string checkpoint = "models/tiny-random";
  std::string engram_map = "tests/golden/data/tiny_engram.json";  // key "token_map"
};

std::unique_ptr<ModelExecutor> make_tiny_executor(const EngineHarnessOptions& options);

std::unique_ptr<BlobStore> open_tiny_store(const std::string& folder, const Executor& executor);

// What one choice of a request said.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::optional<FinishReason> reason;
  friend bool operator==(const Answer&, const Answer&) = default;
};

// What a request came to: answers by choice, and its one terminal event.
struct Outcome {
  std::vector<Answer> answers;
  std::optional<Result<void>> status;
  PrefixReuse reuse;
};

// An engine over models/tiny-random, stepped by hand.
class EngineHarness {
 public:
  explicit EngineHarness(const EngineHarnessOptions& options = {});

  // Submits all, steps until all have ended, returns their outcomes in order.
  std::vector<Outcome> answer(std::vector<GenerateRequest> requests);

  Engine& engine() { return *engine_; }

 private:
  SteadyClock clock_;
  std::unique_ptr<Engine> engine_;
};

// A sampled request whose prompt and seed depend on `key` alone.
GenerateRequest make_request(uint64_t key, int64_t prompt_len, int64_t max_tokens);

}  // namespace yeoul
