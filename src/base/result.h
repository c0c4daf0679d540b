#pragma once

// Failure as a value: Result<T> holds a T or an Error{code, message}. No exception crosses our
// functions; a message says what, where, expected and found.

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace yeoul {

enum class ErrorCode {
  kInvalidArgument,    // the caller's request or configuration is wrong
  kNotFound,           // a named thing does not exist
  kCorrupt,            // stored bytes contradict themselves
  kUnsupported,        // known, but this build cannot do it
  kResourceExhausted,  // memory, queue or pages are used up
  kCancelled,          // the caller asked to stop
  kUnavailable,        // a read failed or a part is shutting down; may succeed later
  kInternal,           // our own fault
};

// The enumerator's name in snake_case, for logs and metrics.
const char* to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace yeoul

#define YEOUL_CONCAT_(a, b) a##b
#define YEOUL_CONCAT(a, b) YEOUL_CONCAT_(a, b)

// Returns the error of `expression` from the enclosing function, if there is one.
#define TRY(expression)                                                     \
  do {                                                                      \
    if (auto try_result = (expression); !try_result)                        \
      return tl::unexpected<::yeoul::Error>(std::move(try_result.error())); \
  } while (false)

// Declares or assigns `target` from the value of `expression`, or returns its error.
#define TRY_ASSIGN(target, expression) \
  TRY_ASSIGN_(YEOUL_CONCAT(try_result_, __LINE__), target, expression)
#define TRY_ASSIGN_(result, target, expression)                                  \
  auto result = (expression);                                                    \
  if (!result) return tl::unexpected<::yeoul::Error>(std::move(result.error())); \
  target = std::move(*result)
