#include "speed/token_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "base/check.h"
#include "text/engram_token_map.h"
#include "text/tokenizer.h"

namespace yeoul::speed {

std::string write_token_map(const std::string& checkpoint) {
  const auto tokenizer = Tokenizer::load(checkpoint + "/tokenizer.json");
  CHECK(tokenizer.has_value(), "{}", tokenizer.error().message);
  std::string path = checkpoint + "/engram_map.json";
  std::ofstream file(path);
  file << fmt::format("{{\"token_map\": [{}]}}", fmt::join(engram_token_map(**tokenizer), ","));
  CHECK(file.flush().good(), "{}", path);
  return path;
}

}  // namespace yeoul::speed
