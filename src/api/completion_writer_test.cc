#include "api/completion_writer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/check.h"

namespace yeoul {
namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto loaded = Tokenizer::load("models/tiny-random/tokenizer.json");
  CHECK(loaded.has_value());
  return *loaded;
}

AnswerSetup setup(int num_requests, int choices_per_request) {
  AnswerSetup out;
  out.header = {"cmpl-0", 1700000000, "m", "fp"};
  out.rules.tokenizer = tokenizer();
  out.rules.plain_text = true;
  out.num_requests = num_requests;
  out.choices_per_request = choices_per_request;
  return out;
}

void push_text(AnswerWriter& writer, int request, int choice, std::string_view text,
               std::string& out) {
  std::vector<TokenId> ids;
  tokenizer()->encode_text(text, ids);
  for (const TokenId id : ids) {
    TokenEvent event{};
    event.choice = choice;
    event.token = id;
    event.logprob = -1;
    writer.push(request, event, out);
  }
  writer.push(request, ChoiceFinished{choice, FinishReason::kLength}, out);
}

TEST(CompletionWriter, choices_of_several_prompts_are_numbered_prompt_by_prompt) {
  CompletionWriter writer(setup(2, 2));
  std::string out;
  push_text(writer, 1, 0, "c", out);
  push_text(writer, 0, 1, "b", out);
  push_text(writer, 0, 0, "a", out);
  writer.push(0, RequestFinished{}, out);
  EXPECT_FALSE(writer.ended());
  push_text(writer, 1, 1, "d", out);
  writer.push(1, RequestFinished{}, out);
  ASSERT_TRUE(writer.ended());
  const Json body = *parse_json(writer.body());
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(body["choices"][i]["finish_reason"], "length");
  }
  EXPECT_EQ(out, "");
}

TEST(CompletionWriter, offsets_count_characters_not_bytes) {
  AnswerSetup with_logprobs = setup(1, 1);
  with_logprobs.with_logprobs = true;
  CompletionWriter writer(std::move(with_logprobs));
  std::string out;
  push_text(writer, 0, 0, "é!é", out);
  writer.push(0, RequestFinished{}, out);
  const Json body = *parse_json(writer.body());
  const Json& logprobs = body["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), logprobs["text_offset"].size());
  const auto mark = std::ranges::find(logprobs["tokens"], Json("!"));
  ASSERT_NE(mark, logprobs["tokens"].end());
  EXPECT_EQ(logprobs["text_offset"][static_cast<size_t>(mark - logprobs["tokens"].begin())], 1);
  EXPECT_EQ(logprobs["token_logprobs"][0], -1.0);
}

TEST(CompletionWriter, streamed_text_adds_up) {
  AnswerSetup streamed = setup(1, 1);
  streamed.stream = true;
  CompletionWriter writer(std::move(streamed));
  std::string out;
  push_text(writer, 0, 0, "여울 stream", out);
  writer.push(0, RequestFinished{}, out);
  std::string text;
  size_t at = 0;
  while ((at = out.find("data: {", at)) != std::string::npos) {
    const size_t end = out.find("\n\n", at);
    const Json chunk = *parse_json(std::string_view(out).substr(at + 6, end - at - 6));
    text += chunk["choices"][0]["text"].get<std::string>();
    at = end;
  }
  EXPECT_EQ(text, "여울 stream");
  EXPECT_TRUE(out.ends_with("data: [DONE]\n\n"));
}

}  // namespace
}  // namespace yeoul
