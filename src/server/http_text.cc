#include "server/http_text.h"

#include <fmt/format.h>

namespace yeoul {
namespace {

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// Of every status in api/errors.cc. Clients read the number; this is for people.
const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Unnamed";
  }
}

}  // namespace

std::string path_of(std::string_view target) {
  target = target.substr(0, target.find('?'));
  std::string path;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == '%' && i + 2 < target.size()) {
      const int high = hex_value(target[i + 1]);
      const int low = hex_value(target[i + 2]);
      if (high >= 0 && low >= 0) {
        path += static_cast<char>(high * 16 + low);
        i += 2;
        continue;
      }
    }
    path += target[i];
  }
  return path;
}

std::string format_head(const HttpReply& reply, std::string_view framing, bool keep) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}\r\n", reply.status,
                                reason_of(reply.status), reply.content_type, framing);
  if (!keep) out += "Connection: close\r\n";
  for (const auto& [name, value] : reply.headers) out += fmt::format("{}: {}\r\n", name, value);
  out += "\r\n";
  return out;
}

std::string format_chunk(std::string_view out) {
  return fmt::format("{:x}\r\n{}\r\n", out.size(), out);
}

}  // namespace yeoul
