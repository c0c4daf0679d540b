#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "text/conversation.h"
#include "text/tokenizer.h"

namespace yeoul {

// A prompt is a list of pieces: markers (by spelling) and ordinary text. Keeping them apart is what
// makes user text unable to forge a marker.
struct PromptPiece {
  bool is_marker = false;
  std::string text;
};

struct RenderedChat {
  std::vector<PromptPiece> pieces;
  bool starts_in_reasoning = false;   // the prompt ends inside the reasoning
  bool starts_in_tool_calls = false;  // tool_choice required: the calls block is already open
  bool continues_text = false;        // the prompt ends inside text that the model goes on with
  std::string to_text() const;  // all pieces concatenated, as the reference encoder prints them
};

// Renders a conversation in the release's chat format (model.md section 7.2-7.3;
// docs/chat_format.md). kInvalidArgument names the message index and what is wrong with it. Images
// are kUnsupported.
Result<RenderedChat> render_chat(const Conversation& conversation);

// The token ids of a rendered chat. kInvalidArgument when the tokenizer lacks a marker.
Result<std::vector<TokenId>> encode_chat(const RenderedChat& chat, const Tokenizer& tokenizer);

}  // namespace yeoul
