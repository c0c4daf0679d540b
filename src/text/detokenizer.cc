#include "text/detokenizer.h"

#include <utility>

#include "text/utf8.h"

namespace yeoul {

Detokenizer::Detokenizer(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {}

std::string Detokenizer::push(TokenId id) {
  pending_ += tokenizer_->token_bytes(id);
  std::string_view rest = pending_;
  std::string out;
  while (!rest.empty()) {
    const Utf8Step step = read_utf8(rest);
    if (step.kind == Utf8Kind::kUnfinished) break;
    out += step.kind == Utf8Kind::kWhole ? rest.substr(0, step.bytes) : kReplacementCharacter;
    rest.remove_prefix(step.bytes);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return out;
}

std::string Detokenizer::finish() {
  return std::exchange(pending_, {}).empty() ? std::string() : std::string(kReplacementCharacter);
}

}  // namespace yeoul
