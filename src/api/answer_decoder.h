#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/token.h"
#include "text/detokenizer.h"
#include "text/output_parser.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace yeoul {

// How the tokens of one answer become text and where the answer ends. Plain data.
struct AnswerRules {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool plain_text = false;  // completions: neither reasoning nor tool calls
  OutputParser::Options parser;
  std::vector<std::string> stop;        // in answer text only, not in reasoning or tool markup
  std::vector<TokenId> stop_token_ids;  // these tokens have no text
  int max_tool_calls = INT_MAX;         // the answer ends after that many
};

// Token ids of one choice -> reasoning, content and tool calls, cut at the stop strings. The same
// class decides where the engine stops and what the client reads, so the two cannot disagree, and
// a streamed answer is the same text as a whole one. Thread-confined.
class AnswerDecoder {
 public:
  explicit AnswerDecoder(const AnswerRules& rules);

  // Appends the events this token completes. Nothing is appended once ended() is true.
  void push(TokenId token, std::vector<OutputEvent>& out);
  // End of the tokens: flushes what was held back.
  void finish(std::vector<OutputEvent>& out);

  // A stop string or the last permitted tool call is complete.
  bool ended() const { return ended_; }
  bool in_reasoning() const { return in_reasoning_; }
  int64_t num_reasoning_tokens() const { return num_reasoning_tokens_; }
  int num_tool_calls() const { return num_tool_calls_; }

 private:
  void push_text(std::string_view text, std::vector<OutputEvent>& out);
  void filter(std::vector<OutputEvent>& out);
  void push_content(std::string text, std::vector<OutputEvent>& out);
  void flush_content(std::vector<OutputEvent>& out);

  const AnswerRules rules_;
  const TokenId end_of_reasoning_;  // -1: the tokenizer has no such marker
  Detokenizer detokenizer_;
  OutputParser parser_;
  StopMatcher stop_matcher_;
  std::vector<OutputEvent> parsed_;
  bool in_reasoning_ = false;
  bool ended_ = false;
  int num_tool_calls_ = 0;
  int64_t num_reasoning_tokens_ = 0;
};

}  // namespace yeoul
