#include "api/answer_decoder.h"

#include <gtest/gtest.h>

#include "api/stop_constraint.h"
#include "base/check.h"

namespace yeoul {
namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto loaded = Tokenizer::load("models/tiny-random/tokenizer.json");
  CHECK(loaded.has_value());
  return *loaded;
}

// The tokens a model would have made of `text`; marker spellings are markers.
std::vector<TokenId> tokens_of(std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer()->encode_with_markers(text, ids);
  return ids;
}

AnswerRules rules() {
  AnswerRules out;
  out.tokenizer = tokenizer();
  return out;
}

// "r:" reasoning, "c:" content, "t:" tool call; deltas of a kind joined.
std::string decode(AnswerDecoder& decoder, std::string_view text) {
  std::vector<OutputEvent> events;
  for (const TokenId id : tokens_of(text)) decoder.push(id, events);
  decoder.finish(events);
  std::string reasoning;
  std::string content;
  std::string calls;
  for (const OutputEvent& event : events) {
    if (const auto* part = std::get_if<ReasoningDelta>(&event)) reasoning += part->text;
    if (const auto* part = std::get_if<ContentDelta>(&event)) content += part->text;
    if (const auto* part = std::get_if<ToolCallBegin>(&event)) calls += part->name + "(";
    if (const auto* part = std::get_if<ToolCallArgumentsDelta>(&event)) calls += part->json;
    if (std::holds_alternative<ToolCallEnd>(event)) calls += ")";
  }
  return "r:" + reasoning + "|c:" + content + "|t:" + calls;
}

constexpr const char* kCall =
    "<｜DSML｜ invoke name=\"f\">\n"
    "<｜DSML｜ parameter name=\"a\" string=\"false\">1</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n";

TEST(AnswerDecoder, reasoning_content_and_calls_are_told_apart) {
  AnswerRules with_all = rules();
  with_all.parser.starts_in_reasoning = true;
  AnswerDecoder decoder(with_all);
  EXPECT_EQ(decode(decoder, std::string("why</think>so\n\n<｜DSML｜ calls>\n") + kCall +
                                "</｜DSML｜ calls>"),
            "r:why|c:so|t:f({\"a\": 1})");
  EXPECT_EQ(decoder.num_reasoning_tokens(), std::ssize(tokens_of("why</think>")));
  EXPECT_EQ(decoder.num_tool_calls(), 1);
}

TEST(AnswerDecoder, plain_text_knows_no_markup) {
  AnswerRules plain = rules();
  plain.plain_text = true;
  AnswerDecoder decoder(plain);
  EXPECT_EQ(decode(decoder, "a</think><｜DSML｜ calls>"), "r:|c:a</think><｜DSML｜ calls>|t:");
}

TEST(AnswerDecoder, stop_strings_cut_content_only) {
  AnswerRules with_stop = rules();
  with_stop.parser.starts_in_reasoning = true;
  with_stop.stop = {"END"};
  AnswerDecoder decoder(with_stop);
  EXPECT_EQ(decode(decoder, "END here</think>text END more"), "r:END here|c:text |t:");
  EXPECT_TRUE(decoder.ended());
}

TEST(AnswerDecoder, a_stop_string_does_not_match_inside_call_arguments) {
  AnswerRules with_stop = rules();
  with_stop.stop = {"1", "DSML"};
  AnswerDecoder decoder(with_stop);
  EXPECT_EQ(decode(decoder, std::string("go\n\n<｜DSML｜ calls>\n") + kCall + "</｜DSML｜ calls>"),
            "r:|c:go|t:f({\"a\": 1})");
}

TEST(AnswerDecoder, held_back_text_comes_out_before_a_call_and_at_the_end) {
  AnswerRules with_stop = rules();
  with_stop.stop = {"abc"};
  AnswerDecoder before_call(with_stop);
  EXPECT_EQ(decode(before_call, std::string("xab\n\n<｜DSML｜ calls>\n") + kCall),
            "r:|c:xab|t:f({\"a\": 1})");
  AnswerDecoder at_end(with_stop);
  EXPECT_EQ(decode(at_end, "xab"), "r:|c:xab|t:");
}

TEST(AnswerDecoder, end_tokens_have_no_text) {
  AnswerRules with_end = rules();
  with_end.stop_token_ids = {*tokenizer()->marker("<｜end▁of▁sentence｜>")};
  AnswerDecoder decoder(with_end);
  EXPECT_EQ(decode(decoder, "a<｜end▁of▁sentence｜>"), "r:|c:a|t:");
}

TEST(AnswerDecoder, the_answer_ends_after_the_last_permitted_call) {
  AnswerRules one = rules();
  one.max_tool_calls = 1;
  AnswerDecoder decoder(one);
  EXPECT_EQ(decode(decoder, std::string("<｜DSML｜ calls>\n") + kCall + kCall),
            "r:|c:|t:f({\"a\": 1})");
  EXPECT_TRUE(decoder.ended());
}

TEST(StopConstraint, ends_the_sequence_at_the_token_that_completes_the_stop_string) {
  AnswerRules with_stop = rules();
  with_stop.stop = {"stop"};
  auto constraints = make_stop_constraints(with_stop, 2);
  ASSERT_EQ(constraints.size(), 2u);
  const std::vector<TokenId> ids = tokens_of("a stop b");
  std::string text;
  for (const TokenId id : ids) {
    text += tokenizer()->token_bytes(id);
    const auto verdict = constraints[0]->accept(id);
    const bool is_complete = text.find("stop") != std::string::npos;
    ASSERT_EQ(verdict, is_complete ? TokenConstraint::Verdict::kEndAfter
                                   : TokenConstraint::Verdict::kContinue)
        << text;
    if (is_complete) break;
  }
  EXPECT_FALSE(constraints[0]->mask_next({}));
}

TEST(StopConstraint, exists_only_for_requests_that_need_it) {
  EXPECT_TRUE(make_stop_constraints(rules(), 3).empty());
  AnswerRules one = rules();
  one.max_tool_calls = 1;
  EXPECT_EQ(make_stop_constraints(one, 3).size(), 3u);
}

}  // namespace
}  // namespace yeoul
