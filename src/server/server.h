#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace yeoul {

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address; other interfaces need keys
  uint16_t port = 8080;            // 0: any free one
  std::vector<std::string> api_keys;
  bool allow_public_without_keys = false;  // lets a non-loopback address serve without keys

  std::vector<std::string> model_names;  // the first is what responses carry; at least one
  std::string system_fingerprint;        // of every response: checkpoint and numerics
  Thinking default_thinking;             // where a request says nothing
  bool seed_from_prompt = false;         // instead of a random seed, where a request names none

  int num_threads = 4;                                   // http-0..N
  size_t body_bytes_max = size_t{32} << 20;              // 413 beyond
  size_t all_bodies_bytes_max = size_t{256} << 20;       // of all connections together; 503 beyond
  size_t header_bytes_max = size_t{16} << 10;            // 431 beyond
  size_t connections_max = 2048;                         // 503 beyond
  Duration header_timeout = std::chrono::seconds(10);    // first byte to end of headers, then 408
  Duration body_timeout = std::chrono::seconds(60);      // the whole body, then 408
  Duration idle_timeout = std::chrono::seconds(75);      // between requests, then closed
  Duration write_timeout = std::chrono::seconds(60);     // one write to a slow reader, then closed
  Duration progress_interval = std::chrono::seconds(3);  // SSE comments while nothing else is sent
  Duration drain_max = std::chrono::seconds(30);         // stop() waits so long for what runs
};

// One key a line; blank lines and lines that begin with # are skipped. kNotFound when the file
// cannot be read, kInvalidArgument when it holds no key.
Result<std::vector<std::string>> load_api_keys(const std::string& path);

// The OpenAI-compatible HTTP server over one engine. The caller runs the engine's thread
// (Engine::run) and keeps the engine alive until after stop(). Internally synchronized.
class Server {
 public:
  // kInvalidArgument when an option cannot be honoured.
  static Result<std::unique_ptr<Server>> create(ServerOptions options, Engine& engine,
                                                std::shared_ptr<const Tokenizer> tokenizer);
  ~Server();  // stops if need be
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds and serves on its own threads; returns at once. kUnavailable when the address is taken.
  Result<void> listen();

  // Where listen() bound, for example "http://127.0.0.1:8080".
  std::string address() const;
  uint16_t port() const;

  // Stops accepting, refuses new requests with 503, waits up to drain_max for what runs, cancels
  // the rest, joins the threads. Blocks; call it from any thread but the server's own.
  void stop();

 private:
  class State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yeoul
