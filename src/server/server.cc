#include "server/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <mutex>

#include "server/listener.h"
#include "server/routes.h"

namespace yeoul {
namespace {

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "::1";
}

Result<void> check(const ServerOptions& options) {
  if (options.model_names.empty()) {
    return fail(ErrorCode::kInvalidArgument, "model_names: expected at least one, found none");
  }
  if (options.num_threads < 1 || options.num_threads > 64) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("num_threads: expected 1 to 64, found {}", options.num_threads));
  }
  if (!is_loopback(options.host) && options.api_keys.empty() &&
      !options.allow_public_without_keys) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("host {} can be reached from other machines: expected API keys, or the "
                            "explicit option to serve without them",
                            options.host));
  }
  for (const std::string& key : options.api_keys) {
    if (key.empty()) return fail(ErrorCode::kInvalidArgument, "api_keys: an empty key");
  }
  return {};
}

// One descriptor a connection; the soft limit is often 1,024.
void raise_descriptor_limit(size_t connections_max) {
  constexpr size_t kOthers = 256;  // shards, logs, the listener
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = connections_max + kOthers;
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min(limit.rlim_max, wanted);
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < wanted) {
    spdlog::warn("{} connections need {} file descriptors, the limit is {}", connections_max,
                 wanted, limit.rlim_cur);
  }
}

}  // namespace

class Server::State {
 public:
  State(ServerOptions options_in, Engine& engine_in, std::shared_ptr<const Tokenizer> tokenizer)
      : options(std::move(options_in)),
        engine(engine_in),
        routes(options, engine, std::move(tokenizer), clock) {}

  const ServerOptions options;
  Engine& engine;
  const SteadyClock clock;
  Routes routes;
  std::mutex mutex;                    // guards listener
  std::unique_ptr<Listener> listener;  // null before listen() and after stop()
  uint16_t port = 0;
};

Result<std::unique_ptr<Server>> Server::create(ServerOptions options, Engine& engine,
                                               std::shared_ptr<const Tokenizer> tokenizer) {
  TRY(check(options));
  return std::unique_ptr<Server>(
      new Server(std::make_unique<State>(std::move(options), engine, std::move(tokenizer))));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() {
  stop();
}

Result<void> Server::listen() {
  const std::lock_guard lock(state_->mutex);
  raise_descriptor_limit(state_->options.connections_max);
  TRY_ASSIGN(state_->listener, Listener::open(state_->options, state_->routes));
  state_->port = state_->listener->port();
  return {};
}

uint16_t Server::port() const {
  return state_->port;
}

std::string Server::address() const {
  const std::string& host = state_->options.host;
  const bool is_v6 = host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", host, state_->port)
               : fmt::format("http://{}:{}", host, state_->port);
}

void Server::stop() {
  const std::lock_guard lock(state_->mutex);
  if (!state_->listener) return;
  state_->engine.drain();
  state_->listener->drain();
  if (!state_->listener->wait_until_empty(state_->options.drain_max)) {
    spdlog::warn("requests still ran at the drain deadline and were cancelled");
  }
  state_->listener.reset();
}

}  // namespace yeoul
