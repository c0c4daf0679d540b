#include "api/logprobs.h"

#include <cmath>

namespace yeoul {
namespace {

Json format_entry(TokenId token, float logprob, const Tokenizer& tokenizer) {
  const std::string_view bytes = tokenizer.token_bytes(token);
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<unsigned char>(byte));
  Json entry;
  entry["token"] = std::string(bytes);
  entry["logprob"] = wire_logprob(logprob);
  entry["bytes"] = std::move(list);
  return entry;
}

}  // namespace

double wire_logprob(float logprob) {
  constexpr double kLowest = -9999.0;
  return std::isfinite(logprob) ? std::max(static_cast<double>(logprob), kLowest) : kLowest;
}

Json format_token_logprob(const TokenEvent& event, const Tokenizer& tokenizer) {
  Json entry = format_entry(event.token, event.logprob, tokenizer);
  Json top = Json::array();
  for (int32_t i = 0; i < event.num_top; ++i) {
    const TopLogprob& candidate = event.top[static_cast<size_t>(i)];
    top.push_back(format_entry(candidate.token, candidate.logprob, tokenizer));
  }
  entry["top_logprobs"] = std::move(top);
  return entry;
}

}  // namespace yeoul
