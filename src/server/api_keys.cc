#include "server/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "server/server.h"

namespace yeoul {

bool equal_in_constant_time(std::string_view secret, std::string_view given) {
  // volatile keeps the loop from being cut short once a difference is known.
  volatile unsigned difference = secret.size() == given.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = secret.empty() ? '\0' : secret[i % secret.size()];
    difference = difference | static_cast<unsigned char>(expected ^ given[i]);
  }
  return difference == 0 && !secret.empty();
}

bool is_authorized(const std::vector<std::string>& keys, const HttpRequest& request) {
  if (keys.empty()) return true;
  std::string_view given = request.header("authorization");
  constexpr std::string_view kBearer = "bearer ";  // schemes are compared without case
  const bool has_scheme =
      given.size() >= kBearer.size() &&
      std::equal(kBearer.begin(), kBearer.end(), given.begin(),
                 [](char a, char b) { return a == (b | (a == ' ' ? 0 : 0x20)); });
  if (has_scheme) {
    given.remove_prefix(kBearer.size());
  } else {
    given = request.header("x-api-key");
  }
  bool found = false;
  for (const std::string& key : keys) found |= equal_in_constant_time(key, given);
  return found;
}

Result<std::vector<std::string>> load_api_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kNotFound, fmt::format("{}: cannot read API keys", path));
  std::vector<std::string> keys;
  for (std::string line; std::getline(file, line);) {
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    const size_t end = line.find_last_not_of(" \t\r");
    keys.push_back(line.substr(begin, end - begin + 1));
  }
  if (keys.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: expected one API key a line, found none", path));
  }
  return keys;
}

}  // namespace yeoul
