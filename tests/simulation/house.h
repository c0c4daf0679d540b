#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/step_engine.h"
#include "expected_answer.h"
#include "scripted_executor.h"

namespace yeoul::simulation {

// An engine over a scripted executor and a virtual clock, as tests want it.
struct HouseOptions {
  EngineOptions engine = {.parallel = 16,
                          .queue_max = 16,
                          .step_tokens_max = 64,
                          .num_pages = 400,
                          .stream_tokens_max = 64,
                          .slow_reader_max = std::chrono::seconds(1)};
  ModelShape shape = {.num_layers = 4,
                      .vocab_size = 64,
                      .context_max = 200,
                      .tokens_per_page = 8,
                      .bytes_per_page = 1,
                      .resume = {.num_layers = 4, .last_source = 2, .reach = 5}};
  Script script;
  bool restores_wrongly = false;  // to see that tests would notice
  Duration step_latency = std::chrono::milliseconds(1);
  Duration token_latency = std::chrono::microseconds(10);
  Duration row_latency = std::chrono::microseconds(10);
  double jitter = 0;
};

struct House {
  explicit House(const HouseOptions& options = {});

  RequestHandle submit(const Question& question);
  // Steps until nothing is left to do, at most `steps_max` times. Returns the last outcome.
  StepOutcome settle(int steps_max = 10'000);

  const HouseOptions options;
  VirtualClock clock;
  ExecutorLog log;
  int64_t constraints_alive = 0;
  std::unique_ptr<StepEngine> engine;
};

// The tokens `other` begins with, `keep` of them, then `more` others.
Question follow(const Question& other, size_t keep, uint64_t key, int64_t more);

GenerateRequest to_request(const Question& question, int64_t& constraints_alive);

// A prompt of `prompt_len` tokens and a seed, both drawn from `key`.
Question make_question(uint64_t key, int64_t prompt_len, int64_t output_max);

// The tokens that the house's script holds for one choice.
std::vector<TokenId> script_tokens(const House& house, const Question& question,
                                   int32_t choice = 0);

// All that a reader got.
struct Answer {
  std::vector<std::vector<TokenId>> tokens;           // by choice
  std::vector<std::optional<FinishReason>> finished;  // by choice
  std::vector<ProgressEvent> progress;
  std::optional<RequestFinished> ending;
};

// Reads what is there. `answer` may hold what was read before.
void read_into(Answer& answer, RequestHandle& handle);
Answer read(RequestHandle& handle);

}  // namespace yeoul::simulation
