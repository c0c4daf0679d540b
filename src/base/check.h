#pragma once

// Programmer errors end the process with a message. CHECK is always on; DCHECK only in debug
// builds. Expected failures use Result instead.

#include <fmt/format.h>

namespace yeoul {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

}  // namespace yeoul

// CHECK(cond) or CHECK(cond, "format {}", args...)
#define CHECK(condition, ...)                                                             \
  do {                                                                                    \
    if (!(condition)) [[unlikely]]                                                        \
      ::yeoul::check_failed(__FILE__, __LINE__, #condition, fmt::format("" __VA_ARGS__)); \
  } while (false)

#ifdef NDEBUG
#define DCHECK(condition, ...) \
  do {                         \
  } while (false)
#else
#define DCHECK(condition, ...) CHECK(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
