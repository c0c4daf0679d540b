#include "api/generation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "api/tokenize.h"
#include "base/check.h"

namespace yeoul {
namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto loaded = Tokenizer::load("models/tiny-random/tokenizer.json");
  CHECK(loaded.has_value());
  return *loaded;
}

ParseContext context() {
  ParseContext out;
  out.vocab_size = tokenizer()->vocab_size();
  return out;
}

ChatRequest chat(const char* body) {
  return *parse_chat_request(*parse_json(body), context());
}

TEST(Generation, the_context_holds_prompt_and_output) {
  EXPECT_TRUE(check_context(10, 6, 16, "messages").has_value());
  EXPECT_TRUE(check_context(15, std::nullopt, 16, "messages").has_value());
  const auto too_long = check_context(10, 7, 16, "messages");
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().reason, "context_length_exceeded");
  EXPECT_EQ(too_long.error().message,
            "the prompt has 10 tokens and max_tokens asks for 7 more, 17 in all; the context holds "
            "16 tokens");
  EXPECT_EQ(check_context(16, std::nullopt, 16, "prompt").error().message,
            "the prompt has 16 tokens; the context holds 16 tokens, the answer included");
}

TEST(Generation, the_end_token_stops_unless_it_is_ignored) {
  const TokenId end = *tokenizer()->marker("<｜end▁of▁sentence｜>");
  GenerationFields fields;
  fields.stop_token_ids = {7};
  EXPECT_EQ(completion_rules(fields, tokenizer()).stop_token_ids, (std::vector<TokenId>{7, end}));
  fields.ignore_eos = true;
  EXPECT_EQ(completion_rules(fields, tokenizer()).stop_token_ids, std::vector<TokenId>{7});
}

TEST(Generation, anchors_are_before_the_last_answer_and_before_the_first_question) {
  const auto prompt = encode_conversation(
      chat(R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},
              {"role":"assistant","content":"b"},{"role":"user","content":"c"}]})")
          .conversation,
      *tokenizer());
  ASSERT_TRUE(prompt.has_value());
  const std::vector<int64_t> anchors = prompt_anchors(prompt->tokens, *tokenizer());
  ASSERT_EQ(anchors.size(), 2u);
  const auto at = [&](size_t i) { return prompt->tokens[static_cast<size_t>(anchors[i])]; };
  EXPECT_EQ(at(0), *tokenizer()->marker("<｜Assistant｜>"));
  EXPECT_GE(anchors[0], std::ssize(prompt->tokens) - 2);
  EXPECT_EQ(at(1), *tokenizer()->marker("<｜User｜>"));
  EXPECT_LT(anchors[1], anchors[0]);
  EXPECT_TRUE(prompt_anchors({}, *tokenizer()).empty());
}

TEST(Generation, markup_is_looked_for_only_where_tools_are_on_offer) {
  const auto parses_calls = [](const char* body) {
    const ChatRequest request = chat(body);
    return chat_rules(request, ChatPrompt{}, tokenizer()).parser.parse_tool_calls;
  };
  EXPECT_FALSE(parses_calls(R"({"messages":[{"role":"user","content":"a"}]})"));
  EXPECT_TRUE(parses_calls(
      R"({"messages":[{"role":"user","content":"a"}],"tools":[{"function":{"name":"f"}}]})"));
  EXPECT_FALSE(parses_calls(R"({"messages":[{"role":"user","content":"a"}],
                               "tools":[{"function":{"name":"f"}}],"tool_choice":"none"})"));
}

TEST(Generation, a_request_for_the_engine_carries_everything) {
  const ChatRequest request = chat(
      R"({"messages":[{"role":"user","content":"a"}],"n":2,"max_tokens":5,"seed":3,"stop":"x"})");
  const auto prompt = encode_conversation(request.conversation, *tokenizer());
  ASSERT_TRUE(prompt.has_value());
  EXPECT_TRUE(prompt->parser.starts_in_reasoning);
  const AnswerRules rules = chat_rules(request, *prompt, tokenizer());
  const GenerateRequest made = make_generate_request(request.fields, rules, prompt->tokens, "id");
  EXPECT_EQ(made.prompt, prompt->tokens);
  EXPECT_EQ(made.sampling.seed, 3u);
  EXPECT_EQ(made.num_choices, 2);
  EXPECT_EQ(made.max_tokens, 5);
  EXPECT_EQ(made.constraints.size(), 2u);
  EXPECT_EQ(made.trace_id, "id");
}

TEST(Generation, a_conversation_that_cannot_be_rendered_blames_the_messages) {
  const ChatRequest request = chat(
      R"({"messages":[{"role":"user","content":"a"},
                      {"role":"assistant","content":"b","prefix":true}],
          "tools":[{"function":{"name":"f"}}],"tool_choice":"required"})");
  const auto prompt = encode_conversation(request.conversation, *tokenizer());
  ASSERT_FALSE(prompt.has_value());
  EXPECT_EQ(prompt.error().param, "messages");
  EXPECT_EQ(http_status(prompt.error()), 400);
}

TEST(Tokenize, text_and_markers_are_told_apart) {
  const auto tokens = [](const char* body) {
    const auto reply = tokenize(*parse_json(body), *tokenizer(), context(), 4096);
    CHECK(reply.has_value());
    return (*parse_json(*reply))["tokens"].get<std::vector<TokenId>>();
  };
  const TokenId user = *tokenizer()->marker("<｜User｜>");
  const auto has_user = [user](const std::vector<TokenId>& ids) {
    return std::ranges::find(ids, user) != ids.end();
  };
  EXPECT_FALSE(has_user(tokens(R"({"content":"<｜User｜>"})")));
  EXPECT_TRUE(has_user(tokens(R"({"content":"<｜User｜>","parse_special":true})")));
  EXPECT_EQ(tokens(R"({"prompt":"a"})").size(), tokens(R"({"content":"a"})").size() + 1);
  EXPECT_EQ(tokens(R"({"prompt":"a","add_special_tokens":false})"), tokens(R"({"content":"a"})"));
  EXPECT_TRUE(has_user(tokens(R"({"messages":[{"role":"user","content":"a"}]})")));
  EXPECT_LT(tokens(R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})")
                .size(),
            tokens(R"({"messages":[{"role":"user","content":"a"}]})").size());
}

TEST(SeedFromPrompts, differs_with_tokens_their_order_and_their_division) {
  using Prompts = std::vector<std::vector<TokenId>>;
  const uint64_t seed = seed_from_prompts(Prompts{{1, 2, 3}});
  EXPECT_EQ(seed_from_prompts(Prompts{{1, 2, 3}}), seed);
  EXPECT_LT(seed, uint64_t{1} << 53);
  for (const Prompts& other : {Prompts{{1, 3, 2}}, Prompts{{1, 2}}, Prompts{{1, 2, 3, 0}},
                               Prompts{{1, 2}, {3}}, Prompts{{1}, {2, 3}}, Prompts{{}}}) {
    EXPECT_NE(seed_from_prompts(other), seed);
  }
}

TEST(Tokenize, wrong_bodies_name_the_field) {
  for (const auto& [body, param] : {std::pair{"[]", ""},
                                    {"{}", "prompt"},
                                    {R"({"prompt":5})", "prompt"},
                                    {R"({"messages":[]})", "messages"},
                                    {R"({"prompt":"a","parse_special":"x"})", "parse_special"}}) {
    const auto reply = tokenize(*parse_json(body), *tokenizer(), context(), 4096);
    ASSERT_FALSE(reply.has_value()) << body;
    EXPECT_EQ(reply.error().param, param);
  }
  for (const char* body : {"{}", R"({"tokens":5})", R"({"tokens":["a"]})", R"({"tokens":[-1]})"}) {
    const auto reply = detokenize(*parse_json(body), *tokenizer(), context());
    ASSERT_FALSE(reply.has_value()) << body;
    EXPECT_EQ(reply.error().param, "tokens");
  }
  EXPECT_EQ(*detokenize(*parse_json(R"({"tokens":[]})"), *tokenizer(), context()),
            R"({"prompt":"","content":""})");
}

}  // namespace
}  // namespace yeoul
