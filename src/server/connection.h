#pragma once

// Only listener.cc and connection.cc include this: Asio is as far as the rest is concerned absent.

#include "server/asio_config.h"
// The line above must stay first.
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>

#include "server/body_share.h"
#include "server/http.h"
#include "server/server.h"
#include "server/wakeup_hub.h"

namespace yeoul {

// What connections share. Outlives them.
struct ConnectionContext {
  ServerOptions options;
  HttpHandler& handler;
  std::shared_ptr<WakeupHub> hub;
  std::atomic<bool> draining{false};
  BodyBudget bodies{options.all_bodies_bytes_max};
};

// One accepted socket. Thread-confined to its strand, but for the two calls to close it.
class Connection {
 public:
  virtual ~Connection() = default;
  // Serves until the socket closes, then calls `closed` once. Call once.
  virtual void start(std::function<void()> closed) = 0;
  // Any thread. close_if_idle: between two requests; close_now: in any state.
  virtual void close_if_idle() = 0;
  virtual void close_now() = 0;
};

// The executor of `socket` must be a strand of its own. `over_limit`: answers 503 and closes.
std::shared_ptr<Connection> make_connection(boost::asio::ip::tcp::socket socket,
                                            ConnectionContext& context, bool over_limit);

}  // namespace yeoul
