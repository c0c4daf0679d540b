#pragma once

// What the routes and the connections say to each other. Neither HTTP parsing nor sockets are
// visible on this side; no JSON and no engine on the other.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "api/errors.h"
#include "base/clock.h"

namespace yeoul {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;   // "GET"
  std::string path;     // percent-decoded, without the query
  HttpHeaders headers;  // names in lower case
  std::string body;

  // Empty when absent.
  std::string_view header(std::string_view lower_case_name) const {
    for (const auto& [name, value] : headers) {
      if (name == lower_case_name) return value;
    }
    return {};
  }
};

struct HttpReply {
  int status = 200;
  std::string content_type = "application/json";
  HttpHeaders headers;
  std::string body;
};

// An answer that takes time. Its connection polls it whenever the notifier was called, and about
// once a second; destroying it early means that the client has left. Thread-confined to the
// connection, but the notifier may be called from any thread.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Called once, before the first poll.
  virtual void set_notifier(std::function<void()> notifier) = 0;

  // True: head() is valid at once and poll() output goes out as it comes. False: head() is valid
  // after poll() returned true, and its output so far is the whole body.
  virtual bool is_stream() const = 0;

  // Appends what there is for the client; true when that was all.
  virtual bool poll(TimePoint now, std::string& out) = 0;

  // Status and headers; the body is what poll() appended.
  virtual HttpReply head() const = 0;
};

using HttpAnswer = std::variant<HttpReply, std::unique_ptr<Exchange>>;

// The routes, as seen by connections. Called from the http threads, several at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Looks at a request whose body has not been read; a reply refuses it.
  virtual std::optional<HttpReply> screen(const HttpRequest& head) = 0;
  virtual HttpAnswer answer(HttpRequest request) = 0;
  // Something below the routes went wrong (malformed HTTP, a limit, a timeout).
  virtual HttpReply refuse(const ApiError& error) = 0;
};

// An OpenAI-shaped error body with the status of the error table.
HttpReply error_reply(const ApiError& error);

}  // namespace yeoul
