// How fast text becomes tokens on one core.
//   tokenizer_speed TOKENIZER_JSON TEXT_FILE
// Prints two JSON lines: MB/s on the text (best of five passes), and how much slower a byte becomes
// when a hostile text is four times as long.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace {

constexpr double kGoalMbPerS = 10;
constexpr double kGrowthMax = 3;  // quadratic work: 4
constexpr size_t kHostileBytes = 1'000'000;

// Documents of a request's size, so that long-text effects do not hide.
constexpr size_t kDocumentBytes = 16384;

// Of this thread: what other programs take from the core does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_to_encode(const yeoul::Tokenizer& tokenizer, std::string_view text,
                         size_t document_bytes) {
  std::vector<yeoul::TokenId> ids;
  const double start = cpu_seconds();
  for (size_t at = 0; at < text.size(); at += document_bytes) {
    ids.clear();
    tokenizer.encode_text(text.substr(at, document_bytes), ids);
  }
  return cpu_seconds() - start;
}

double best_seconds(const yeoul::Tokenizer& tokenizer, std::string_view text,
                    size_t document_bytes) {
  double best = seconds_to_encode(tokenizer, text, document_bytes);
  for (int pass = 1; pass < 5; ++pass) {
    best = std::min(best, seconds_to_encode(tokenizer, text, document_bytes));
  }
  return best;
}

std::string repeated(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

void print_row(const char* name, double value, const char* unit, const char* goal, bool holds) {
  std::printf(
      "{\"name\": \"%s\", \"value\": %.2f, \"unit\": \"%s\", \"goal\": \"%s\", \"holds\": %s}\n",
      name, value, unit, goal, holds ? "true" : "false");
}

// One letter, spaces, line ends, a digit, combining marks, one Han character, one syllable,
// punctuation, letters that merge in pairs, control characters, bytes that are not UTF-8.
constexpr std::string_view kHostileUnits[] = {"a",  " ", "\n", "7",    "\u0301", "你",
                                              "가", "!", "ab", "\x01", "\xFF"};

void print_growth(const yeoul::Tokenizer& tokenizer) {
  double worst = 0;
  for (const std::string_view unit : kHostileUnits) {
    const std::string once = repeated(unit, kHostileBytes);
    const std::string four = repeated(unit, 4 * kHostileBytes);
    const double once_s = best_seconds(tokenizer, once, once.size());
    const double growth = best_seconds(tokenizer, four, four.size()) / (4 * once_s);
    std::fprintf(stderr, "  %-8s %6.1f MB/s, growth %.2f\n",
                 unit.size() == 1 && unit[0] < '!' ? "(space)" : std::string(unit).c_str(),
                 1e-6 * static_cast<double>(once.size()) / once_s, growth);
    worst = std::max(worst, growth);
  }
  print_row("tokenizer_hostile_growth", worst, "time per byte, 4 MB over 1 MB", "<= 3",
            worst <= kGrowthMax);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s TOKENIZER_JSON TEXT_FILE\n", argv[0]);
    return 2;
  }
  const auto tokenizer = yeoul::Tokenizer::load(argv[1]);
  if (!tokenizer) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    return 1;
  }
  std::ifstream file(argv[2], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() < 1'000'000) {
    std::fprintf(stderr, "%s: at least 1 MB of text expected\n", argv[2]);
    return 1;
  }
  const double rate =
      1e-6 * static_cast<double>(text.size()) / best_seconds(**tokenizer, text, kDocumentBytes);
  print_row("tokenizer_mb_per_s", rate, "MB/s of CPU time", ">= 10", rate >= kGoalMbPerS);
  print_growth(**tokenizer);
  return 0;
}
