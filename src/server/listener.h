#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "server/asio_config.h"
#include "server/http.h"
#include "server/server.h"

namespace yeoul {

// Accepts connections and runs them on its own threads (http-0..N): HTTP/1.1 with keep-alive,
// pipelining, chunked bodies, limits and timeouts. Knows bytes and HTTP; the handler knows the
// rest. Internally synchronized.
class Listener {
 public:
  // Binds and starts. The handler is borrowed for the life of the listener.
  static Result<std::unique_ptr<Listener>> open(const ServerOptions& options, HttpHandler& handler);
  ~Listener();  // closes everything still open and joins
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  uint16_t port() const;

  // Accepts no more, closes idle connections, and lets the others finish what they are answering.
  void drain();
  // True when the last connection has gone within `limit`. After drain().
  bool wait_until_empty(Duration limit);

 private:
  class State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace yeoul
