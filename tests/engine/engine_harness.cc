#include "engine/engine_harness.h"

#include "base/check.h"
#include "base/counter_rng.h"
#include "support/golden_files.h"

namespace yeoul {

std::unique_ptr<ModelExecutor> make_tiny_executor(const EngineHarnessOptions& options) {
  auto checkpoint = Checkpoint::open(options.checkpoint);
  CHECK(checkpoint.has_value(), "{}", checkpoint.error().message);
  LoadOptions load;
  load.memory = {.parallel = options.parallel,
                 .context_max = options.context_max,
                 .step_tokens_max = options.step_tokens_max,
                 .num_threads = options.num_threads,
                 .prefix_cache = options.prefix_cache};
  load.profile = options.profile;
  load.engram_token_map =
      golden::read_json(options.engram_map)["token_map"].get<std::vector<int32_t>>();
  auto model = LoadedModel::load(*checkpoint, std::move(load));
  CHECK(model.has_value(), "{}", model.error().message);
  return std::make_unique<ModelExecutor>(std::move(*model));
}

std::unique_ptr<BlobStore> open_tiny_store(const std::string& folder, const Executor& executor) {
  auto store =
      DiskTier::open_store({.folder = folder, .budget_bytes = int64_t{256} << 20}, executor);
  CHECK(store.has_value(), "{}", store.error().message);
  return std::move(*store);
}

EngineHarness::EngineHarness(const EngineHarnessOptions& options) {
  auto executor = make_tiny_executor(options);
  const EngineOptions engine_options{.parallel = options.parallel,
                                     .step_tokens_max = options.step_tokens_max,
                                     .num_pages = executor->model().plan().kv.num_pages,
                                     .context_max = options.context_max,
                                     .num_snapshots = executor->model().plan().kv.snapshots,
                                     .snapshot_interval = options.snapshot_interval,
                                     .fetch = FetchRule::kAlways};
  std::unique_ptr<BlobStore> store;
  if (!options.cache_folder.empty()) store = open_tiny_store(options.cache_folder, *executor);
  auto engine = Engine::create(engine_options, std::move(executor), clock_, std::move(store));
  CHECK(engine.has_value(), "{}", engine.error().message);
  engine_ = std::move(*engine);
}

std::vector<Outcome> EngineHarness::answer(std::vector<GenerateRequest> requests) {
  std::vector<RequestHandle> handles;
  std::vector<Outcome> outcomes;
  for (GenerateRequest& request : requests) {
    outcomes.emplace_back().answers.resize(static_cast<size_t>(request.num_choices));
    auto handle = engine_->submit(std::move(request));
    CHECK(handle.has_value(), "{}", handle.error().message);
    handles.push_back(std::move(*handle));
  }
  size_t ended = 0;
  while (ended < handles.size()) {
    engine_->step();
    for (size_t i = 0; i < handles.size(); ++i) {
      while (auto event = handles[i].events().try_next()) {
        if (const auto* token = std::get_if<TokenEvent>(&*event)) {
          Answer& answer = outcomes[i].answers[static_cast<size_t>(token->choice)];
          answer.tokens.push_back(token->token);
          answer.logprobs.push_back(token->logprob);
        } else if (const auto* choice = std::get_if<ChoiceFinished>(&*event)) {
          outcomes[i].answers[static_cast<size_t>(choice->choice)].reason = choice->reason;
        } else if (auto* finished = std::get_if<RequestFinished>(&*event)) {
          CHECK(!outcomes[i].status, "a second terminal event");
          outcomes[i].status = finished->status;
          outcomes[i].reuse = finished->reuse;
          ++ended;
        }
      }
    }
  }
  return outcomes;
}

GenerateRequest make_request(uint64_t key, int64_t prompt_len, int64_t max_tokens) {
  GenerateRequest request;
  for (int64_t i = 0; i < prompt_len; ++i) {
    request.prompt.push_back(
        static_cast<TokenId>(3 + mix64(key * 7919 + static_cast<uint64_t>(i)) % 480));
  }
  request.sampling.seed = key;
  request.sampling.num_top_logprobs = 2;
  request.max_tokens = max_tokens;
  return request;
}

}  // namespace yeoul
