#include "text/engram_token_map.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "base/check.h"
#include "text/unicode_class.h"
#include "text/utf8.h"

namespace yeoul {
namespace {

// `text` is valid UTF-8.
std::string mapped(std::string_view text, unsigned options) {
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
      static_cast<utf8proc_ssize_t>(text.size()), &mapped, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  CHECK(length >= 0, "utf8proc: {}", utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(mapped), static_cast<size_t>(length)};
}

bool is_plain_space(uint32_t c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

std::string trimmed(std::string_view text) {
  size_t begin = 0;
  size_t end = 0;  // of the last character that is not white space
  bool in_front = true;
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = read_utf8(text.substr(at));
    const bool is_space = (unicode_class(step.code_point) & kWhiteSpace) != 0;
    at += step.bytes;
    if (!is_space) {
      in_front = false;
      end = at;
    } else if (in_front) {
      begin = at;
    }
  }
  return in_front ? std::string() : std::string(text.substr(begin, end - begin));
}

}  // namespace

std::string engram_key(std::string_view text) {
  const std::string composed = mapped(text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  const std::string decomposed = mapped(composed, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  std::string key;
  bool after_space = false;
  for (std::string_view rest = decomposed; !rest.empty();) {
    const Utf8Step step = read_utf8(rest);
    rest.remove_prefix(step.bytes);
    if ((unicode_class(step.code_point) & kMark) != 0) continue;
    const bool is_space = is_plain_space(step.code_point);
    if (is_space && !after_space) key += ' ';
    if (!is_space) {
      append_utf8(
          static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(step.code_point))),
          key);
    }
    after_space = is_space;
  }
  return key == " " ? key : trimmed(key);
}

std::vector<int32_t> engram_token_map(const Tokenizer& tokenizer) {
  std::unordered_map<std::string, int32_t> classes;
  std::vector<int32_t> map;
  map.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string text = replace_invalid_utf8(tokenizer.token_bytes(id));
    std::string key;
    if (text.find(kReplacementCharacter) != std::string::npos) {
      key = tokenizer.token_entry(id);  // not whole UTF-8: only equal to itself
    } else {
      key = engram_key(text);
      if (key.empty()) key = text;
    }
    const auto next = static_cast<int32_t>(classes.size());
    map.push_back(classes.try_emplace(std::move(key), next).first->second);
  }
  return map;
}

}  // namespace yeoul
