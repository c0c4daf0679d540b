// Any bytes as generated text; the first byte chooses the options and where the text is cut. The
// pieces give the same as the whole, every call is closed, and its arguments are JSON unless a
// problem was reported.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "text/output_parser.h"
#include "text/utf8.h"

namespace {

struct Parsed {
  std::string reasoning;
  std::string content;
  std::vector<std::string> arguments;
  size_t ended = 0;
  std::vector<std::string> problems;
  bool operator==(const Parsed&) const = default;
};

Parsed join(const std::vector<yeoul::OutputEvent>& events) {
  Parsed parsed;
  for (const yeoul::OutputEvent& event : events) {
    if (const auto* text = std::get_if<yeoul::ReasoningDelta>(&event)) {
      parsed.reasoning += text->text;
    } else if (const auto* content = std::get_if<yeoul::ContentDelta>(&event)) {
      parsed.content += content->text;
    } else if (std::holds_alternative<yeoul::ToolCallBegin>(event)) {
      CHECK(parsed.ended == parsed.arguments.size());
      parsed.arguments.emplace_back();
    } else if (const auto* json = std::get_if<yeoul::ToolCallArgumentsDelta>(&event)) {
      CHECK(static_cast<size_t>(json->index) + 1 == parsed.arguments.size());
      parsed.arguments.back() += json->json;
    } else if (std::holds_alternative<yeoul::ToolCallEnd>(event)) {
      ++parsed.ended;
    } else {
      parsed.problems.push_back(std::get<yeoul::OutputProblem>(event).message);
    }
  }
  return parsed;
}

Parsed parse(std::string_view text, yeoul::OutputParser::Options options, size_t piece) {
  yeoul::OutputParser parser(options);
  std::vector<yeoul::OutputEvent> events;
  for (size_t at = 0; at < text.size(); at += piece) parser.push(text.substr(at, piece), events);
  parser.finish(events);
  return join(events);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const yeoul::OutputParser::Options options{.starts_in_reasoning = (data[0] & 1) != 0,
                                             .starts_in_tool_calls = (data[0] & 2) != 0,
                                             .continues_text = (data[0] & 4) != 0,
                                             .parse_tool_calls = (data[0] & 8) == 0};
  const size_t piece = (data[0] >> 4) + 1u;
  const std::string text =
      yeoul::replace_invalid_utf8({reinterpret_cast<const char*>(data) + 1, size - 1});
  const Parsed whole = parse(text, options, text.size() + 1);
  CHECK(parse(text, options, piece) == whole, "cut into pieces of {}", piece);
  CHECK(whole.ended == whole.arguments.size());
  for (const std::string& arguments : whole.arguments) {
    CHECK(!whole.problems.empty() || yeoul::parse_json(arguments), "{}", arguments);
  }
  return 0;
}
