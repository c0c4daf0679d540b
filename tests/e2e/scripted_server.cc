// The production server and engine over ScriptedTextExecutor. Prints where it listens; SIGTERM and
// SIGINT drain and end it.

#include <csignal>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <thread>

#include "engine/step_engine.h"
#include "scripted_text_executor.h"
#include "server/server.h"

namespace {

using yeoul::Duration;

struct Options {
  yeoul::ServerOptions server;
  yeoul::EngineOptions engine;
  int64_t context = 4096;
  int step_ms = 0;
};

Duration milliseconds(int count) {
  return std::chrono::milliseconds(count);
}

void add_milliseconds(CLI::App& app, const char* name, Duration& target) {
  app.add_option_function<int>(name, [&target](int count) { target = milliseconds(count); });
}

void declare(CLI::App& app, Options& options) {
  app.add_option("--host", options.server.host);
  app.add_option("--api-key", options.server.api_keys);
  app.add_option("--connections", options.server.connections_max);
  app.add_option("--body-bytes", options.server.body_bytes_max);
  app.add_option("--all-bodies-bytes", options.server.all_bodies_bytes_max);
  app.add_flag("--seed-from-prompt", options.server.seed_from_prompt);
  app.add_option("--parallel", options.engine.parallel);
  app.add_option("--queue", options.engine.queue_max);
  app.add_option("--snapshots", options.engine.num_snapshots);
  app.add_option("--stream-tokens", options.engine.stream_tokens_max);
  app.add_option("--context", options.context);
  app.add_option("--step-ms", options.step_ms);
  add_milliseconds(app, "--header-timeout-ms", options.server.header_timeout);
  add_milliseconds(app, "--body-timeout-ms", options.server.body_timeout);
  add_milliseconds(app, "--idle-timeout-ms", options.server.idle_timeout);
  add_milliseconds(app, "--write-timeout-ms", options.server.write_timeout);
  add_milliseconds(app, "--progress-ms", options.server.progress_interval);
  add_milliseconds(app, "--drain-ms", options.server.drain_max);
  add_milliseconds(app, "--slow-reader-ms", options.engine.slow_reader_max);
}

int serve(Options& options) {
  auto tokenizer = yeoul::Tokenizer::load("models/tiny-random/tokenizer.json");
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  constexpr int32_t kTokensPerPage = 64;
  const auto pages = (options.context / kTokensPerPage + 1) * (options.engine.parallel + 1);
  options.engine.num_pages = static_cast<int32_t>(pages);
  const yeoul::ModelShape shape = {.num_layers = 1,
                                   .vocab_size = (*tokenizer)->vocab_size(),
                                   .context_max = options.context,
                                   .tokens_per_page = kTokensPerPage,
                                   .bytes_per_page = 1};
  auto executor = std::make_unique<yeoul::e2e::ScriptedTextExecutor>(
      yeoul::e2e::ScriptedTextExecutor::Options{shape, options.engine.parallel,
                                                milliseconds(options.step_ms)},
      *tokenizer);
  const yeoul::SteadyClock clock;
  auto engine = yeoul::Engine::create(options.engine, std::move(executor), clock);
  options.server.port = 0;
  options.server.model_names = {"scripted", "scripted-alias"};
  options.server.system_fingerprint = "fp_scripted";
  auto server = engine ? yeoul::Server::create(options.server, **engine, *tokenizer)
                       : tl::unexpected<yeoul::Error>(engine.error());
  const auto listening =
      server ? (*server)->listen() : tl::unexpected<yeoul::Error>(server.error());
  if (!listening) {
    std::fprintf(stderr, "%s\n", listening.error().message.c_str());
    return 1;
  }
  std::jthread stepping([&engine](const std::stop_token& stop) { (*engine)->run(stop); });
  std::printf("listening on %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  int received = 0;
  sigwait(&signals, &received);
  (*server)->stop();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  sigset_t signals;  // before any thread starts, so that only sigwait sees them
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  CLI::App app("server over a scripted executor");
  Options options;
  declare(app, options);
  CLI11_PARSE(app, argc, argv);
  return serve(options);
}
