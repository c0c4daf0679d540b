#include "server/connection.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "server/http_text.h"

namespace yeoul {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::awaitable;
using boost::system::error_code;
using RequestParser = http::request_parser<http::string_body>;

constexpr size_t kPipelinedBytesMax = 64 << 10;  // read ahead while an answer is under way
constexpr size_t kWatchBytes = 4 << 10;          // one read of the watch
constexpr size_t kLingerBytesMax = 64 << 20;     // of a refused body, read and dropped
constexpr Duration kLinger = std::chrono::seconds(3);
constexpr Duration kPollInterval = std::chrono::seconds(1);

auto awaiting(error_code& ec) {
  return asio::redirect_error(asio::use_awaitable, ec);
}

HttpRequest head_of(const RequestParser& parser) {
  const auto& message = parser.get();
  HttpRequest request;
  request.method = message.method_string();
  request.path = path_of(message.target());
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  return request;
}

ApiError error_of(const error_code& ec, const ServerOptions& options) {
  if (ec == http::error::body_limit) {
    return {
        ErrorCode::kInvalidArgument,
        fmt::format("request body: expected at most {} bytes, found more", options.body_bytes_max),
        "", "body_too_large"};
  }
  if (ec == http::error::header_limit || ec == http::error::buffer_overflow) {
    return {ErrorCode::kInvalidArgument,
            fmt::format("request headers: expected at most {} bytes, found more",
                        options.header_bytes_max),
            "", "headers_too_large"};
  }
  return {ErrorCode::kInvalidArgument, fmt::format("malformed HTTP request: {}", ec.message()), "",
          "invalid_http"};
}

class HttpConnection final : public Connection,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(asio::ip::tcp::socket socket, ConnectionContext& context, bool over_limit)
      : context_(context),
        is_over_limit_(over_limit),
        socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        wake_timer_(socket_.get_executor()) {}

  void start(std::function<void()> closed) override {
    asio::co_spawn(
        socket_.get_executor(),
        [self = shared_from_this()] {
          return self->is_over_limit_ ? self->turn_away() : self->run();
        },
        [self = shared_from_this(), closed = std::move(closed)](const std::exception_ptr& fault) {
          if (fault) self->report(fault);
          self->close();
          closed();
        });
  }

  void close_if_idle() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (self->is_idle_) self->close();
    });
  }
  void close_now() override {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->close(); });
  }

 private:
  // --- life of the connection ---

  awaitable<void> run() {
    bool keep = true;
    while (keep) {
      // Not in the condition: g++ 12 mistakes the value of `a && co_await b` there.
      keep = co_await wait_for_request();
      if (keep) keep = co_await serve_request();
    }
  }

  awaitable<void> turn_away() {
    const ApiError error(ErrorCode::kUnavailable, "too many connections; try again later", "",
                         "too_many_connections");
    co_await refuse(error);
  }

  static void report(const std::exception_ptr& fault) {
    try {
      std::rethrow_exception(fault);
    } catch (const std::exception& exception) {
      spdlog::error("http connection: {}", exception.what());
    }
  }

  void close() {
    error_code ignored;
    peer_gone_ = true;
    deadline_.cancel();
    wake_timer_.cancel();
    socket_.close(ignored);
  }

  // A deadline for the operations between arm() and disarm(); they end with operation_aborted.
  void arm(Duration limit) {
    has_fired_ = false;
    const uint64_t generation = ++generation_;
    deadline_.expires_after(limit);
    deadline_.async_wait([self = shared_from_this(), generation](const error_code& ec) {
      if (ec || generation != self->generation_) return;
      self->has_fired_ = true;
      error_code ignored;
      self->socket_.cancel(ignored);
    });
  }
  bool disarm() {  // true: the deadline had passed
    ++generation_;
    deadline_.cancel();
    return has_fired_;
  }

  // False when the connection should close instead.
  awaitable<bool> wait_for_request() {
    if (buffer_.size() > 0) co_return true;
    if (context_.draining.load()) co_return false;
    error_code ec;
    is_idle_ = true;
    arm(context_.options.idle_timeout);
    co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, awaiting(ec));
    is_idle_ = false;
    co_return !disarm() && !ec && !peer_gone_;
  }

  // --- one request ---

  // True when another request may follow on this connection.
  awaitable<bool> serve_request() {
    RequestParser parser;
    parser.header_limit(static_cast<uint32_t>(context_.options.header_bytes_max));
    parser.body_limit(context_.options.body_bytes_max);
    if (!co_await read_head(parser)) co_return false;
    HttpRequest request = head_of(parser);
    if (auto refusal = context_.handler.screen(request)) {
      co_await write_reply(*refusal, false, request.method == "HEAD");
      co_await linger();
      co_return false;
    }
    BodyShare share(context_.bodies);
    if (!co_await read_body(parser, share)) co_return false;
    is_http_1_0_ = parser.get().version() < 11;
    const bool is_head = request.method == "HEAD";
    bool keep = parser.get().keep_alive() && !is_http_1_0_;
    request.body = std::move(parser.get().body());
    HttpAnswer answer = context_.handler.answer(std::move(request));
    share.release();
    keep = keep && !context_.draining.load();
    if (auto* exchange = std::get_if<std::unique_ptr<Exchange>>(&answer)) {
      co_return co_await run_exchange(std::move(*exchange), keep);
    }
    co_return co_await write_reply(std::get<HttpReply>(answer), keep, is_head);
  }

  awaitable<bool> read_head(RequestParser& parser) {
    error_code ec;
    arm(context_.options.header_timeout);
    co_await http::async_read_header(socket_, buffer_, parser, awaiting(ec));
    const bool is_late = disarm();
    if (!ec) co_return true;
    if (peer_gone_ || ec == http::error::end_of_stream || is_disconnect(ec)) co_return false;
    if (is_late) {
      co_await refuse_late("headers", context_.options.header_timeout);
    } else {
      const ApiError error = error_of(ec, context_.options);
      co_await refuse(error);
    }
    co_return false;
  }

  awaitable<bool> read_body(RequestParser& parser, BodyShare& share) {
    if (parser.is_done()) co_return true;
    const bool may_continue = co_await meet_expectation(parser);
    if (!may_continue) co_return false;
    error_code ec;
    bool fits = share.grow_to(parser.content_length().value_or(0));
    arm(context_.options.body_timeout);
    while (!ec && fits && !parser.is_done()) {
      co_await http::async_read_some(socket_, buffer_, parser, awaiting(ec));
      fits = share.grow_to(parser.get().body().size());
    }
    const bool is_late = disarm();
    if (!ec && fits) co_return true;
    share.release();  // before the refused client is listened to a little longer
    if (peer_gone_ || is_disconnect(ec)) co_return false;
    if (is_late) {
      co_await refuse_late("body", context_.options.body_timeout);
    } else {
      const ApiError error = fits ? error_of(ec, context_.options)
                                  : ApiError(ErrorCode::kUnavailable,
                                             "too many large requests at once; try again later", "",
                                             "too_many_bodies");
      co_await refuse(error);
    }
    co_return false;
  }

  // Answers "Expect: 100-continue". False when the request cannot go on.
  awaitable<bool> meet_expectation(const RequestParser& parser) {
    const std::string_view expect = parser.get()[http::field::expect];
    if (expect.empty()) co_return true;
    if (beast::iequals(expect, "100-continue")) {
      co_return co_await write("HTTP/1.1 100 Continue\r\n\r\n", {});
    }
    const ApiError error(ErrorCode::kInvalidArgument, "Expect: only 100-continue can be met", "",
                         "expectation_failed");
    co_await refuse(error);
    co_return false;
  }

  static bool is_disconnect(const error_code& ec) {
    return ec == asio::error::eof || ec == asio::error::connection_reset ||
           ec == asio::error::broken_pipe || ec == http::error::partial_message;
  }

  // --- writing ---

  // False when the client no longer reads.
  awaitable<bool> write(std::string_view head, std::string_view body) {
    error_code ec;
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head), asio::buffer(body)};
    arm(context_.options.write_timeout);
    co_await asio::async_write(socket_, buffers, awaiting(ec));
    disarm();
    co_return !ec && !peer_gone_;
  }

  awaitable<bool> write_reply(const HttpReply& reply, bool keep, bool head_only) {
    const std::string head =
        format_head(reply, fmt::format("Content-Length: {}", reply.body.size()), keep);
    const bool is_written =
        co_await write(head, head_only ? std::string_view() : std::string_view(reply.body));
    co_return is_written&& keep;
  }

  // The coroutines below take references: g++ 12 destroys some temporaries of co_await twice. What
  // they refer to lives in the caller's frame.
  awaitable<void> refuse(const ApiError& error) {
    const HttpReply reply = context_.handler.refuse(error);
    co_await write_reply(reply, false, false);
    co_await linger();
  }

  awaitable<void> refuse_late(const char* what, Duration limit) {
    const auto seconds = std::chrono::duration<double>(limit).count();
    const ApiError error(ErrorCode::kInvalidArgument,
                         fmt::format("request {}: expected within {} s, found less", what, seconds),
                         "", "request_timeout");
    co_await refuse(error);
  }

  // Closing with unread input would reset the connection, and the client might lose the reply.
  awaitable<void> linger() {
    error_code ec;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ec);
    std::array<char, 16 << 10> scratch;
    size_t total = 0;
    arm(kLinger);
    while (!ec && total < kLingerBytesMax) {
      total += co_await socket_.async_read_some(asio::buffer(scratch), awaiting(ec));
    }
    disarm();
  }

  // --- an answer that takes time ---

  awaitable<bool> run_exchange(std::unique_ptr<Exchange> exchange, bool keep) {
    const bool is_stream = exchange->is_stream();
    keep = keep && !(is_stream && is_http_1_0_);
    const auto waiter = subscribe();
    exchange->set_notifier([hub = context_.hub, waiter] { hub->signal(*waiter); });
    is_watching_allowed_ = true;
    watch();
    std::string out;
    bool is_done = false;
    std::string head;
    if (is_stream) {
      head = format_head(exchange->head(),
                         is_http_1_0_ ? "Cache-Control: no-cache" : "Transfer-Encoding: chunked",
                         keep);
    }
    while (!is_done && !peer_gone_) {
      is_notified_ = false;
      is_done = exchange->poll(std::chrono::steady_clock::now(), out);
      if (is_stream && (!out.empty() || !head.empty() || is_done)) {
        if (!co_await write_piece(head, out, is_done)) break;
      }
      if (!is_done && !is_notified_ && !peer_gone_) co_await sleep(kPollInterval);
    }
    co_await stop_watching();
    if (!is_done || peer_gone_) co_return false;
    if (is_stream) co_return keep;
    HttpReply reply = exchange->head();
    reply.body = std::move(out);
    co_return co_await write_reply(reply, keep, false);
  }

  // Writes what a stream has, in the framing of the protocol version, and clears both strings.
  awaitable<bool> write_piece(std::string& head, std::string& out, bool is_last) {
    if (!is_http_1_0_) {
      std::string framed;
      if (!out.empty()) framed = format_chunk(out);
      if (is_last) framed += kLastChunk;
      out = std::move(framed);
    }
    const bool is_written = co_await write(head, out);
    head.clear();
    out.clear();
    if (!is_written) peer_gone_ = true;
    co_return is_written;
  }

  std::shared_ptr<WakeupHub::Waiter> subscribe() {
    return context_.hub->add([weak = weak_from_this()] {
      auto self = weak.lock();
      if (!self) return;
      asio::post(self->socket_.get_executor(), [self] {
        self->is_notified_ = true;
        self->wake_timer_.cancel();
      });
    });
  }

  // Until the time is over or somebody cancels wake_timer_.
  awaitable<void> sleep(Duration limit) {
    error_code ec;
    wake_timer_.expires_after(limit);
    co_await wake_timer_.async_wait(awaiting(ec));
  }

  // Reads while an answer is under way: pipelined requests are kept, and the end of the stream
  // means that the client has left (a half-closed socket counts as left).
  void watch() {
    if (is_watching_ || !is_watching_allowed_ || peer_gone_) return;
    if (buffer_.size() >= kPipelinedBytesMax) return;
    is_watching_ = true;
    socket_.async_read_some(
        buffer_.prepare(kWatchBytes), [self = shared_from_this()](const error_code& ec, size_t n) {
          self->is_watching_ = false;
          self->buffer_.commit(n);
          if (ec && ec != asio::error::operation_aborted) {
            self->peer_gone_ = true;
            error_code ignored;
            self->socket_.cancel(ignored);  // a write that the client will never read
          }
          self->wake_timer_.cancel();
          if (!ec) self->watch();
        });
  }

  awaitable<void> stop_watching() {
    is_watching_allowed_ = false;
    error_code ignored;
    while (is_watching_) {
      socket_.cancel(ignored);
      co_await sleep(kPollInterval);
    }
  }

  ConnectionContext& context_;
  const bool is_over_limit_;
  asio::ip::tcp::socket socket_;
  asio::steady_timer deadline_;
  asio::steady_timer wake_timer_;
  beast::flat_buffer buffer_;
  uint64_t generation_ = 0;
  bool has_fired_ = false;
  bool is_idle_ = false;
  bool is_http_1_0_ = false;
  bool is_watching_allowed_ = false;
  bool is_watching_ = false;
  bool is_notified_ = false;
  bool peer_gone_ = false;
};

}  // namespace

std::shared_ptr<Connection> make_connection(asio::ip::tcp::socket socket,
                                            ConnectionContext& context, bool over_limit) {
  return std::make_shared<HttpConnection>(std::move(socket), context, over_limit);
}

}  // namespace yeoul
