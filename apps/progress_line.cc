#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "commands.h"

namespace yeoul {

ProgressLine::ProgressLine(std::string title)
    : title_(std::move(title)), is_terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(uint64_t done, uint64_t total) {
  if (!is_terminal_) return;
  const uint64_t permille = total == 0 ? 1000 : done * 1000 / total;
  if (permille == shown_permille_) return;
  shown_permille_ = permille;
  constexpr uint64_t kWidth = 40;
  const std::string bar(permille * kWidth / 1000, '#');
  const std::string text =
      fmt::format("{} [{:<{}}] {:5.1f}%", title_, bar, kWidth, static_cast<double>(permille) / 10);
  fmt::print(stderr, "\r{}", text);
  if (permille == 1000) fmt::print(stderr, "\r{:{}}\r", "", text.size());
  std::fflush(stderr);
}

}  // namespace yeoul
