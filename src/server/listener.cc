#include "server/listener.h"

#include <fmt/format.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "server/connection.h"

namespace yeoul {

namespace asio = boost::asio;
using asio::awaitable;
using asio::ip::tcp;
using boost::system::error_code;

class Listener::State {
 public:
  State(const ServerOptions& options, HttpHandler& handler, std::shared_ptr<WakeupHub> hub)
      : context_{options, handler, std::move(hub)},
        strand_(asio::make_strand(io_)),
        acceptor_(strand_),
        wakeups_(io_) {}

  Result<void> start() {
    TRY(bind());
    wakeups_.assign(dup(context_.hub->descriptor()));
    asio::co_spawn(strand_, accept_all(), asio::detached);
    asio::co_spawn(io_, dispatch_wakeups(), asio::detached);
    for (int i = 0; i < context_.options.num_threads; ++i) {
      threads_.emplace_back([this, i] {
        pthread_setname_np(pthread_self(), fmt::format("http-{}", i).c_str());
        io_.run();
      });
    }
    return {};
  }

  void drain() {
    context_.draining.store(true);
    asio::post(strand_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      for_each_connection([](Connection& connection) { connection.close_if_idle(); });
    });
  }

  bool wait_until_empty(Duration limit) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return connections_.empty(); });
  }

  void stop() {
    drain();
    for_each_connection([](Connection& connection) { connection.close_now(); });
    // A handler call may still be under way on an http thread; it ends by itself.
    wait_until_empty(std::chrono::seconds(30));
    io_.stop();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  uint16_t port() const { return port_; }

 private:
  Result<void> bind() {
    error_code ec;
    const auto address = asio::ip::make_address(context_.options.host, ec);
    if (ec) {
      return fail(
          ErrorCode::kInvalidArgument,
          fmt::format("host: expected a numeric address, found \"{}\"", context_.options.host));
    }
    const tcp::endpoint endpoint(address, context_.options.port);
    acceptor_.open(endpoint.protocol(), ec);
    if (!ec) acceptor_.set_option(asio::socket_base::reuse_address(true), ec);
    if (!ec) acceptor_.bind(endpoint, ec);
    if (!ec) acceptor_.listen(1024, ec);
    if (ec) {
      return fail(ErrorCode::kUnavailable,
                  fmt::format("cannot listen on {}:{}: {}", context_.options.host,
                              context_.options.port, ec.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    return {};
  }

  awaitable<void> accept_all() {
    asio::steady_timer pause(strand_);
    while (!context_.draining.load()) {
      error_code ec;
      tcp::socket socket = co_await acceptor_.async_accept(
          asio::make_strand(io_), asio::redirect_error(asio::use_awaitable, ec));
      if (!acceptor_.is_open()) co_return;
      if (ec) {  // out of descriptors, or a client that left the queue
        spdlog::warn("accept: {}", ec.message());
        pause.expires_after(std::chrono::milliseconds(100));
        co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ec));
        continue;
      }
      socket.set_option(tcp::no_delay(true), ec);
      admit(std::move(socket));
    }
  }

  void admit(tcp::socket socket) {
    std::shared_ptr<Connection> connection;
    {
      const std::lock_guard lock(mutex_);
      const bool over_limit = connections_.size() >= context_.options.connections_max;
      connection = make_connection(std::move(socket), context_, over_limit);
      connections_.emplace(connection.get(), connection);
    }
    connection->start([this, key = connection.get()] { forget(key); });
  }

  void forget(Connection* closed) {
    const std::lock_guard lock(mutex_);
    connections_.erase(closed);
    changed_.notify_all();
  }

  template <typename Visitor>
  void for_each_connection(Visitor visit) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, connection] : connections_) visit(*connection);
  }

  awaitable<void> dispatch_wakeups() {
    uint64_t count = 0;
    error_code ec;
    while (!ec) {
      co_await wakeups_.async_read_some(asio::buffer(&count, sizeof count),
                                        asio::redirect_error(asio::use_awaitable, ec));
      if (!ec) context_.hub->dispatch();
    }
  }

  ConnectionContext context_;
  asio::io_context io_;
  asio::strand<asio::io_context::executor_type> strand_;
  tcp::acceptor acceptor_;
  asio::posix::stream_descriptor wakeups_;
  uint16_t port_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections_;
  std::vector<std::thread> threads_;
};

Result<std::unique_ptr<Listener>> Listener::open(const ServerOptions& options,
                                                 HttpHandler& handler) {
  TRY_ASSIGN(auto hub, WakeupHub::create());
  auto state = std::make_unique<State>(options, handler, std::move(hub));
  TRY(state->start());
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}
Listener::~Listener() {
  state_->stop();
}
uint16_t Listener::port() const {
  return state_->port();
}
void Listener::drain() {
  state_->drain();
}
bool Listener::wait_until_empty(Duration limit) {
  return state_->wait_until_empty(limit);
}

}  // namespace yeoul
