#include "text/output_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/json.h"

namespace yeoul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct ParsedCall {
  std::string name;
  std::string arguments;
  bool is_ended = false;
  bool operator==(const ParsedCall&) const = default;
};

struct Parsed {
  std::string reasoning;
  std::string content;
  std::vector<ParsedCall> calls;
  std::vector<std::string> problems;
  bool operator==(const Parsed&) const = default;
};

// Joins the deltas, and checks that calls begin and end in order.
Parsed join(const std::vector<OutputEvent>& events) {
  Parsed parsed;
  for (const OutputEvent& event : events) {
    if (const auto* reasoning = std::get_if<ReasoningDelta>(&event)) {
      EXPECT_FALSE(reasoning->text.empty());
      parsed.reasoning += reasoning->text;
    } else if (const auto* content = std::get_if<ContentDelta>(&event)) {
      EXPECT_FALSE(content->text.empty());
      parsed.content += content->text;
    } else if (const auto* begin = std::get_if<ToolCallBegin>(&event)) {
      EXPECT_EQ(static_cast<size_t>(begin->index), parsed.calls.size());
      EXPECT_TRUE(parsed.calls.empty() || parsed.calls.back().is_ended);
      parsed.calls.push_back({begin->name, "", false});
    } else if (const auto* arguments = std::get_if<ToolCallArgumentsDelta>(&event)) {
      EXPECT_EQ(static_cast<size_t>(arguments->index) + 1, parsed.calls.size());
      parsed.calls.back().arguments += arguments->json;
    } else if (const auto* end = std::get_if<ToolCallEnd>(&event)) {
      EXPECT_EQ(static_cast<size_t>(end->index) + 1, parsed.calls.size());
      parsed.calls.back().is_ended = true;
    } else {
      parsed.problems.push_back(std::get<OutputProblem>(event).message);
    }
  }
  return parsed;
}

Parsed parse(std::string_view text, OutputParser::Options options = {}, size_t piece = 1 << 20) {
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  for (size_t at = 0; at < text.size(); at += piece) parser.push(text.substr(at, piece), events);
  parser.finish(events);
  return join(events);
}

constexpr OutputParser::Options kReasoning{.starts_in_reasoning = true};

std::string parameter(std::string_view name, std::string_view is_string, std::string_view value) {
  return "<｜DSML｜ parameter name=\"" + std::string(name) + "\" string=\"" +
         std::string(is_string) + "\">" + std::string(value) + "</｜DSML｜ parameter>\n";
}

std::string invoke(std::string_view name, std::string_view parameters) {
  return "<｜DSML｜ invoke name=\"" + std::string(name) + "\">\n" + std::string(parameters) +
         "</｜DSML｜ invoke>\n";
}

std::string calls(std::string_view invokes) {
  return "\n\n<｜DSML｜ calls>\n" + std::string(invokes) + "</｜DSML｜ calls>";
}

TEST(OutputParser, reasoning_ends_at_think_end_and_newlines_around_it_are_layout) {
  const Parsed parsed = parse("\n\nfirst\n\nsecond\n\n</think>\n\nanswer\n\n", kReasoning);
  EXPECT_EQ(parsed.reasoning, "first\n\nsecond");
  EXPECT_EQ(parsed.content, "answer\n\n");
  EXPECT_THAT(parsed.problems, IsEmpty());
}

TEST(OutputParser, a_continued_text_keeps_its_leading_newlines) {
  EXPECT_EQ(parse("\n\nmore", {.continues_text = true}).content, "\n\nmore");
  EXPECT_EQ(parse("\n\nmore").content, "more");
}

TEST(OutputParser, calls_become_json_objects) {
  const Parsed parsed =
      parse("Let me look." +
            calls(invoke("search", parameter("query", "true", "a \"b\"\n\\\t\x01여울") +
                                       parameter("limits", "false", "[1, {\"x\": null}]")) +
                  invoke("now", "\n")));
  EXPECT_EQ(parsed.content, "Let me look.");
  EXPECT_THAT(parsed.problems, IsEmpty());
  ASSERT_EQ(parsed.calls.size(), 2u);
  EXPECT_EQ(parsed.calls[0].name, "search");
  EXPECT_EQ(parsed.calls[0].arguments,
            R"({"query": "a \"b\"\n\\\t\u0001여울", "limits": [1, {"x": null}]})");
  EXPECT_EQ(parsed.calls[1], (ParsedCall{"now", "{}", true}));
}

TEST(OutputParser, arguments_are_streamed_as_they_come) {
  OutputParser parser({.starts_in_tool_calls = true});
  std::vector<OutputEvent> events;
  parser.push("<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"k\" string=\"true\">ab",
              events);
  EXPECT_EQ(join(events).calls[0].arguments, "{\"k\": \"ab");
  parser.push("c</｜DS", events);
  EXPECT_EQ(join(events).calls[0].arguments, "{\"k\": \"abc");
}

TEST(OutputParser, the_spellings_of_v4_are_accepted) {
  const Parsed parsed = parse(
      "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"k\" "
      "string=\"true\">v"
      "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>");
  EXPECT_THAT(parsed.calls, ElementsAre(ParsedCall{"f", "{\"k\": \"v\"}", true}));
  EXPECT_THAT(parsed.problems, IsEmpty());
  const Parsed mixed = parse("<｜DSML｜ calls>\n" + invoke("f", "") + "</｜DSML｜tool_calls>\n");
  EXPECT_THAT(mixed.calls, ElementsAre(ParsedCall{"f", "{}", true}));
  EXPECT_THAT(mixed.problems, IsEmpty());
}

TEST(OutputParser, what_only_looks_like_markup_is_text) {
  for (const char* text : {"a < b", "<｜DSML", "<｜DSML｜ foo> x", "a ｜DSML｜ b", "<think>x",
                           "</thin", "<｜DSML｜ invoke name=\"f\">"}) {
    EXPECT_EQ(parse(text).content, text);
    EXPECT_THAT(parse(text).problems, IsEmpty());
  }
  const std::string value =
      "</｜DSML｜ param </｜DSML｜ x <｜DSML｜ parameter name=\"q\" string=\"true\"><";
  const Parsed parsed = parse(calls(invoke("f", parameter("k", "true", value))));
  EXPECT_THAT(parsed.problems, IsEmpty());
  EXPECT_EQ((*parse_json(parsed.calls[0].arguments))["k"], value);
}

TEST(OutputParser, without_tool_call_parsing_markup_is_content) {
  const std::string text = "x" + calls(invoke("f", ""));
  EXPECT_EQ(parse(text, {.parse_tool_calls = false}).content, text);
}

TEST(OutputParser, a_second_think_end_is_reported_and_skipped) {
  const Parsed parsed = parse("a</think>b</think>c", kReasoning);
  EXPECT_EQ(parsed.reasoning, "a");
  EXPECT_EQ(parsed.content, "bc");
  EXPECT_THAT(parsed.problems, ElementsAre("</think> outside the reasoning"));
}

TEST(OutputParser, missing_think_end_is_a_problem_and_the_text_stays_reasoning) {
  const Parsed parsed = parse("thinking\n\n", kReasoning);
  EXPECT_EQ(parsed.reasoning, "thinking\n\n");
  EXPECT_THAT(parsed.problems, ElementsAre(HasSubstr("</think> is missing")));
}

TEST(OutputParser, a_calls_block_inside_the_reasoning_ends_it) {
  const Parsed parsed = parse("r" + calls(invoke("f", "")), kReasoning);
  EXPECT_EQ(parsed.reasoning, "r");
  EXPECT_THAT(parsed.calls, ElementsAre(ParsedCall{"f", "{}", true}));
  EXPECT_THAT(parsed.problems, ElementsAre("a calls block inside the reasoning"));
}

TEST(OutputParser, of_a_duplicate_parameter_the_first_counts) {
  const Parsed parsed =
      parse(calls(invoke("f", parameter("k", "true", "1") + parameter("k", "false", "2") +
                                  parameter("l", "false", "3"))));
  EXPECT_EQ(parsed.calls[0].arguments, R"({"k": "1", "l": 3})");
  EXPECT_THAT(parsed.problems, ElementsAre("parameter \"k\" is there twice; the first one counts"));
}

TEST(OutputParser, broken_markup_is_named_and_parsing_goes_on) {
  const auto problems = [](const std::string& text) { return parse(text).problems; };
  EXPECT_THAT(problems(calls(invoke("f", "")) + "\n more"),
              ElementsAre("text after the calls block"));
  EXPECT_THAT(problems(calls("junk < more\n" + invoke("f", ""))),
              ElementsAre("text between the tags of a calls block"));
  EXPECT_THAT(problems(calls(invoke("f", parameter("k", "false", "abc")))),
              ElementsAre(HasSubstr("parameter \"k\" is not JSON")));
  EXPECT_THAT(problems(calls(invoke("f", parameter("k", "maybe", "abc")))),
              ElementsAre(HasSubstr("does not say whether it is a string")));
  EXPECT_THAT(problems(calls(parameter("k", "true", "abc"))),
              ElementsAre("parameter \"k\" outside a call"));
  EXPECT_THAT(
      problems(calls("</｜DSML｜ parameter></｜DSML｜ invoke>")),
      ElementsAre("a parameter is closed that is not open", "a call is closed that is not open"));
  EXPECT_THAT(problems("<｜DSML｜ calls>" + invoke("f", "")),
              ElementsAre("the calls block is not closed"));
  EXPECT_THAT(problems(calls("<｜DSML｜ invoke name=\"" + std::string(5000, 'x') + "\">")),
              ElementsAre("an opening tag without end"));
}

TEST(OutputParser, missing_closing_tags_are_supplied) {
  const std::string open =
      "<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"k\" string=\"true\">v";
  const Parsed unclosed = parse(calls(open + "</｜DSML｜ invoke>" + open));
  EXPECT_THAT(unclosed.calls, ElementsAre(ParsedCall{"f", "{\"k\": \"v\"}", true},
                                          ParsedCall{"f", "{\"k\": \"v\"}", true}));
  EXPECT_EQ(unclosed.problems.size(), 3u);
  const Parsed next = parse(calls("<｜DSML｜ invoke name=\"f\">\n" + invoke("g", "")));
  EXPECT_THAT(next.calls, ElementsAre(ParsedCall{"f", "{}", true}, ParsedCall{"g", "{}", true}));
  EXPECT_THAT(next.problems, ElementsAre("the call of \"f\" is not closed"));
}

// Whatever the model writes: whole JSON, or a problem that says why not.
TEST(OutputParser, a_call_cut_off_anywhere_still_has_whole_arguments_or_a_problem) {
  const std::string text = calls(
      invoke("f", parameter("a", "true", "x\"y") + parameter("b", "false", "[1, {\"c\": \"d\"}]")));
  for (size_t length = 0; length < text.size(); ++length) {
    const Parsed parsed = parse(text.substr(0, length));
    for (const ParsedCall& call : parsed.calls) {
      EXPECT_TRUE(call.is_ended);
      EXPECT_FALSE(parsed.problems.empty());
      const bool names_broken_json = std::any_of(
          parsed.problems.begin(), parsed.problems.end(),
          [](const auto& problem) { return problem.find("is not JSON") != std::string::npos; });
      EXPECT_TRUE(names_broken_json || parse_json(call.arguments)) << call.arguments;
    }
  }
}

// Text made of markup fragments and ordinary pieces.
rc::Gen<std::string> markup() {
  return rc::gen::map(
      rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
          "<", "</", "｜DSML｜", " calls>", "tool_calls>", " invoke name=\"", "f\">", "invoke>",
          " invoke>", " parameter name=\"", "k\" string=\"true\">", "k\" string=\"false\">",
          " parameter>", "</think>", "\n", "\n\n", "text", "\"", "1", "여", "<｜DSML｜ calls>\n",
          "<｜DSML｜ invoke name=\"f\">", "</｜DSML｜ invoke>", "</｜DSML｜ calls>",
          "<｜DSML｜ parameter name=\"k\" string=\"true\">", "</｜DSML｜ parameter>",
          "<｜DSML｜ parameter name=\"l\" string=\"false\">")),
      [](const std::vector<std::string>& pieces) {
        std::string text;
        for (const std::string& piece : pieces) text += piece;
        return text;
      });
}

TEST(OutputParser, where_the_text_is_cut_does_not_matter) {
  rc::check([] {
    const std::string text = *markup();
    const OutputParser::Options options{
        .starts_in_reasoning = *rc::gen::arbitrary<bool>(),
        .starts_in_tool_calls = *rc::gen::arbitrary<bool>(),
        .parse_tool_calls = *rc::gen::weightedElement<bool>({{4, true}, {1, false}})};
    const Parsed whole = parse(text, options);
    RC_ASSERT(parse(text, options, 1) == whole);
    RC_ASSERT(parse(text, options, 7) == whole);
    const size_t cut = *rc::gen::inRange<size_t>(1, text.size() + 2);
    RC_ASSERT(parse(text, options, cut) == whole);
    for (const ParsedCall& call : whole.calls) {
      RC_ASSERT(call.is_ended);
      RC_ASSERT(!whole.problems.empty() || parse_json(call.arguments).has_value());
    }
  });
}

}  // namespace
}  // namespace yeoul
