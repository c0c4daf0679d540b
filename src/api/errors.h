#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "base/result.h"

namespace yeoul {

// A refusal or failure in the client's terms. Plain data.
struct ApiError {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string param;   // the field at fault, for example "messages[2].role"; empty: none
  std::string reason;  // a row of the table in errors.cc, for example "context_length_exceeded"

  ApiError() = default;
  ApiError(Error error) : code(error.code), message(std::move(error.message)) {}  // NOLINT
  ApiError(ErrorCode code_in, std::string message_in, std::string param_in = {},
           std::string reason_in = {})
      : code(code_in),
        message(std::move(message_in)),
        param(std::move(param_in)),
        reason(std::move(reason_in)) {}
};

template <typename T>
using ApiResult = tl::expected<T, ApiError>;

[[nodiscard]] inline tl::unexpected<ApiError> refuse(ApiError error) {
  return tl::unexpected<ApiError>(std::move(error));
}

// The HTTP status of an error: the one table of the project, keyed by `reason` first, then by code.
int http_status(const ApiError& error);

// {"error": {"message", "type", "param", "code"}}
std::string format_error(const ApiError& error);

}  // namespace yeoul
