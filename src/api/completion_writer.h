#pragma once

#include <string>
#include <vector>

#include "api/answer_writer.h"

namespace yeoul {

// Writes the answer of POST /v1/completions: "text_completion", whole or in chunks. Choice number
// prompt_index * n + i.
class CompletionWriter final : public AnswerWriter {
 public:
  explicit CompletionWriter(AnswerSetup setup);
  std::string body() const override;

 protected:
  void write(const ChoiceUpdate& update, std::string& out) override;
  const char* chunk_object() const override { return "text_completion"; }

 private:
  struct Logprobs {
    Json tokens = Json::array();
    Json token_logprobs = Json::array();
    Json top_logprobs = Json::array();
    Json text_offset = Json::array();  // in code points
  };
  struct Choice {
    std::string text;
    Logprobs logprobs;           // not yet written when streaming
    int64_t num_characters = 0;  // of all tokens so far
    bool wrote_chunk = false;
  };
  void note_logprobs(const ChoiceUpdate& update, Choice& choice);
  Json format_choice(size_t index, std::string text, const Logprobs& logprobs) const;

  std::vector<Choice> choices_;
};

}  // namespace yeoul
