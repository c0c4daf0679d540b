#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace yeoul {

// What the model's text means, piece by piece. Concatenating all deltas of a kind gives the whole.
struct ReasoningDelta {
  std::string text;
};
struct ContentDelta {
  std::string text;
};
struct ToolCallBegin {
  int index = 0;
  std::string name;
};
// A piece of the call's arguments, JSON text; the pieces of one call join to one JSON object.
struct ToolCallArgumentsDelta {
  int index = 0;
  std::string json;
};
struct ToolCallEnd {
  int index = 0;
};
// The markup broke the format (duplicate parameter, text after the calls block, unfinished call).
// Parsing goes on; what was already emitted stands.
struct OutputProblem {
  std::string message;
};
using OutputEvent = std::variant<ReasoningDelta, ContentDelta, ToolCallBegin,
                                 ToolCallArgumentsDelta, ToolCallEnd, OutputProblem>;

// Splits generated text into reasoning, content and tool calls (model.md section 7.4; the DSML
// format of 7.3). Input may be cut anywhere. Thread-confined.
class OutputParser {
 public:
  struct Options {
    bool starts_in_reasoning = false;
    bool starts_in_tool_calls = false;
    bool continues_text = false;   // the prompt ended inside this text: leading newlines are kept
    bool parse_tool_calls = true;  // false: DSML markup is content
  };
  explicit OutputParser(Options options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // Appends the events that `text` completes.
  void push(std::string_view text, std::vector<OutputEvent>& out);
  // End of the stream: flushes what was held back.
  void finish(std::vector<OutputEvent>& out);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace yeoul
