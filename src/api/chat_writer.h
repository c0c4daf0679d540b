#pragma once

#include <string>
#include <vector>

#include "api/answer_writer.h"
#include "text/conversation.h"

namespace yeoul {

// Writes the answer of POST /v1/chat/completions: "chat.completion" or its chunks.
class ChatWriter final : public AnswerWriter {
 public:
  explicit ChatWriter(AnswerSetup setup);
  std::string body() const override;

 protected:
  void write(const ChoiceUpdate& update, std::string& out) override;
  const char* chunk_object() const override { return "chat.completion.chunk"; }

 private:
  struct Choice {
    std::string reasoning;
    std::string content;
    std::vector<ToolCall> tool_calls;
    std::vector<std::string> problems;
    Json logprobs_content = Json::array();    // not yet written when streaming
    Json logprobs_reasoning = Json::array();  // likewise
    bool wrote_role = false;
  };
  void note_logprobs(const ChoiceUpdate& update, Choice& choice);
  void collect(const OutputEvent& event, Choice& choice, int choice_index);
  Json delta_of(const OutputEvent& event, int choice_index) const;
  void append_delta(int choice_index, Json delta, const char* finish_reason, std::string& out);
  std::string tool_call_id(int choice_index, int call_index) const;
  Json take_logprobs(Choice& choice) const;

  std::vector<Choice> choices_;
};

}  // namespace yeoul
