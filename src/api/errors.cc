#include "api/errors.h"

#include "base/json.h"

namespace yeoul {
namespace {

struct ErrorRow {
  int status;
  const char* type;
  const char* reason;  // "code" of the body; empty: null
};

struct ReasonRow {
  std::string_view reason;
  int status;
  const char* type;
};

// Reasons with a status or type of their own. Documented in docs/api.md.
constexpr ReasonRow kReasons[] = {
    {"context_length_exceeded", 400, "invalid_request_error"},
    {"invalid_json", 400, "invalid_request_error"},
    {"invalid_http", 400, "invalid_request_error"},
    {"invalid_api_key", 401, "authentication_error"},
    {"model_not_found", 404, "not_found_error"},
    {"route_not_found", 404, "not_found_error"},
    {"method_not_allowed", 405, "invalid_request_error"},
    {"request_timeout", 408, "timeout_error"},
    {"body_too_large", 413, "invalid_request_error"},
    {"expectation_failed", 417, "invalid_request_error"},
    {"queue_full", 429, "rate_limit_error"},
    {"headers_too_large", 431, "invalid_request_error"},
    {"draining", 503, "unavailable_error"},
    {"not_ready", 503, "unavailable_error"},
    {"too_many_bodies", 503, "unavailable_error"},
    {"too_many_connections", 503, "unavailable_error"},
};

ErrorRow row_of(const ApiError& error) {
  for (const ReasonRow& row : kReasons) {
    if (row.reason == error.reason) return {row.status, row.type, row.reason.data()};
  }
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return {400, "invalid_request_error", "invalid_value"};
    case ErrorCode::kNotFound:
      return {404, "not_found_error", "not_found"};
    case ErrorCode::kUnsupported:
      return {400, "invalid_request_error", "unsupported"};
    case ErrorCode::kResourceExhausted:
      return {429, "rate_limit_error", "resource_exhausted"};
    case ErrorCode::kCancelled:  // nginx's number for a client that left or was cut off
      return {499, "cancelled_error", "cancelled"};
    case ErrorCode::kUnavailable:
      return {503, "unavailable_error", "unavailable"};
    case ErrorCode::kCorrupt:
      return {500, "server_error", "corrupt"};
    case ErrorCode::kInternal:
      break;
  }
  return {500, "server_error", "internal"};
}

}  // namespace

int http_status(const ApiError& error) {
  return row_of(error).status;
}

std::string format_error(const ApiError& error) {
  const ErrorRow row = row_of(error);
  Json body;
  body["message"] = error.message;
  body["type"] = row.type;
  body["param"] = error.param.empty() ? Json(nullptr) : Json(error.param);
  body["code"] = row.reason;
  return dump_compact(Json{{"error", std::move(body)}});
}

}  // namespace yeoul
