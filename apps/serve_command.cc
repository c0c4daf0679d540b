#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "commands.h"
#include "engine/disk_tier.h"
#include "engine/engine.h"
#include "engine/model_executor.h"
#include "server/server.h"

namespace yeoul {
namespace {

struct ServeArguments {
  ModelArguments model;
  ServerOptions server;
  std::string name = "deepseek-flash";
  std::string api_key_file;
  int64_t itl_target_ms = 100;
};

void print_start(const Server& server, const std::string& name) {
  fmt::print("listening on {}\n\n", server.address());
  fmt::print(
      "  curl {}/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{{\"model\": \"{}\", \"max_tokens\": 64, \"messages\": "
      "[{{\"role\": \"user\", \"content\": \"Hello\"}}]}}'\n\n",
      server.address(), name);
  std::fflush(stdout);
}

// A store that cannot be opened costs what it would have saved, and nothing else.
std::unique_ptr<BlobStore> open_disk_tier(const DiskTierOptions& options,
                                          const Executor& executor) {
  if (options.folder.empty()) return nullptr;
  Result<std::unique_ptr<BlobStore>> store = DiskTier::open_store(options, executor);
  if (store) return std::move(*store);
  fmt::print(stderr, "yeoul: serving without --cache-dir {}: {}\n", options.folder,
             store.error().message);
  return nullptr;
}

Result<void> serve(ServeArguments arguments) {
  // Blocked before any thread starts, so that only sigwait below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  if (!arguments.api_key_file.empty()) {
    TRY_ASSIGN(arguments.server.api_keys, load_api_keys(arguments.api_key_file));
  }
  TRY_ASSIGN(OpenedModel opened, open_model(arguments.model, true));
  arguments.server.model_names = {arguments.name};
  arguments.server.system_fingerprint =
      fmt::format("{}-{}", opened.model->identity().substr(0, 12), opened.model->numerics_id());
  const EngineOptions options{.parallel = arguments.model.parallel,
                              .queue_max = arguments.model.queue_max,
                              .step_tokens_max = arguments.model.step_tokens_max,
                              .itl_target = std::chrono::milliseconds(arguments.itl_target_ms),
                              .num_pages = opened.model->plan().kv.num_pages,
                              .context_max = opened.model->plan().context_max,
                              .num_snapshots = opened.model->plan().kv.snapshots};
  const SteadyClock clock;
  auto executor = std::make_unique<ModelExecutor>(std::move(opened.model));
  std::unique_ptr<BlobStore> store = open_disk_tier(arguments.model.disk, *executor);
  TRY_ASSIGN(const std::unique_ptr<Engine> engine,
             Engine::create(options, std::move(executor), clock, std::move(store)));
  TRY_ASSIGN(const std::unique_ptr<Server> server,
             Server::create(std::move(arguments.server), *engine, opened.tokenizer));
  std::jthread stepping([&](const std::stop_token& stop) {
    pthread_setname_np(pthread_self(), "engine");
    engine->run(stop);
  });
  TRY(server->listen());
  print_start(*server, arguments.name);
  int signal = 0;
  sigwait(&signals, &signal);
  fmt::print(stderr, "{} received: finishing what runs\n", strsignal(signal));
  server->stop();
  stepping.request_stop();
  stepping.join();
  print_profile(opened.profile.get());
  return {};
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<ServeArguments>();
  arguments->model.parallel = 16;
  arguments->model.queue_max = 256;
  CLI::App* command = app.add_subcommand("serve", "Serve the OpenAI-compatible API over HTTP");
  ServerOptions& server = arguments->server;
  add_model_arguments(*command, arguments->model);
  add_profile_option(*command, arguments->model);
  command->add_option("--host", server.host, "Address to bind")->capture_default_str();
  command->add_option("--port", server.port, "Port to bind, 0 for any")->capture_default_str();
  command->add_option("--api-key", server.api_keys, "Accepted key, may be repeated");
  command->add_option("--api-key-file", arguments->api_key_file, "Accepted keys, one a line");
  command->add_flag("--allow-public-without-keys", server.allow_public_without_keys,
                    "Serve other interfaces than loopback without keys");
  command->add_option("--model-name", arguments->name, "Name in requests and responses")
      ->capture_default_str();
  command->add_flag("--seed-from-prompt", server.seed_from_prompt,
                    "Derive the seed of a request that names none from its prompt");
  command->add_option("--parallel", arguments->model.parallel, "Sequences that run at once")
      ->capture_default_str();
  command
      ->add_option("--queue", arguments->model.queue_max, "Sequences that may wait; more get 429")
      ->capture_default_str();
  DiskTierOptions& disk = arguments->model.disk;
  command
      ->add_option("--cache-dir", disk.folder,
                   "Folder that keeps what is known of prompts over restarts (default: none)")
      ->type_name("DIR");
  add_size_option(*command, "--cache-disk", disk.budget_bytes,
                  "Bytes that folder may take, for example 64GiB (the default)");
  command
      ->add_option(
          "--itl-target-ms", arguments->itl_target_ms,
          "Milliseconds between two tokens of a stream that the sizes of prompt chunks aim "
          "at; 0: none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--http-threads", server.num_threads)->capture_default_str();
  command->callback([arguments, &exit_code] {
    const Result<void> served = serve(*arguments);
    exit_code = served ? 0 : report(served.error());
  });
}

}  // namespace yeoul
