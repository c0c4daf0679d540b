#include "api/chat_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/check.h"

namespace yeoul {
namespace {

std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto loaded = Tokenizer::load("models/tiny-random/tokenizer.json");
  CHECK(loaded.has_value());
  return *loaded;
}

AnswerSetup setup() {
  AnswerSetup out;
  out.header = {"chatcmpl-0", 1700000000, "m", "fp"};
  out.rules.tokenizer = tokenizer();
  out.rules.stop_token_ids = {*tokenizer()->marker("<｜end▁of▁sentence｜>")};
  out.prompt_tokens = 10;
  out.seed = 5;
  return out;
}

TokenEvent token_event(TokenId id) {
  TokenEvent event{};
  event.token = id;
  event.logprob = -0.5f;
  event.num_top = 1;
  event.top[0] = {id, -0.5f};
  return event;
}

// Pushes the tokens of `text` and a regular end; returns what went to the stream.
std::string run(AnswerWriter& writer, std::string_view text,
                FinishReason reason = FinishReason::kStop) {
  std::vector<TokenId> ids;
  tokenizer()->encode_with_markers(text, ids);
  std::string out;
  for (const TokenId id : ids) writer.push(0, token_event(id), out);
  writer.push(0, ChoiceFinished{0, reason}, out);
  RequestFinished finished;
  finished.reuse = {.shared_tokens = 9,
                    .candidate_tokens = 6,
                    .cached_tokens = 4,
                    .tier = "disk",
                    .reason = "rows_missing",
                    .seconds_saved = 0.125};
  finished.timings = {0.5, 0.25, 2};
  writer.push(0, finished, out);
  return out;
}

constexpr const char* kEnvelope =
    R"("id":"chatcmpl-0","object":"{}","created":1700000000,"model":"m",)"
    R"("system_fingerprint":"fp","choices":[{}])";

const std::string kPrefix =
    R"("prefix":{"shared_tokens":9,"candidate_tokens":6,"cached_tokens":4,"tier":"disk",)"
    R"("seconds_saved":0.125,"reason":"rows_missing"})";

std::string frame(const std::string& choices, const std::string& rest) {
  return "data: {" + fmt::format(fmt::runtime(kEnvelope), "chat.completion.chunk", choices) + rest +
         "}\n\n";
}

TEST(ChatWriter, a_whole_answer_is_this_body) {
  ChatWriter writer(setup());
  EXPECT_EQ(run(writer, "yes<｜end▁of▁sentence｜>"), "");
  ASSERT_TRUE(writer.ended());
  const int64_t count = writer.tracker().usage().output_tokens;
  EXPECT_EQ(
      writer.body(),
      "{" +
          fmt::format(fmt::runtime(kEnvelope), "chat.completion",
                      R"({"index":0,"message":{"role":"assistant","content":"yes"},)"
                      R"("logprobs":null,"finish_reason":"stop"})") +
          fmt::format(R"(,"usage":{{"prompt_tokens":10,"completion_tokens":{},"total_tokens":{},)"
                      R"("prompt_tokens_details":{{"cached_tokens":4}},)"
                      R"("completion_tokens_details":{{"reasoning_tokens":0}}}})",
                      count, count + 10) +
          R"(,"yeoul":{"seed":5,"ignored_fields":[],)"
          R"("timings":{"queue_s":0.5,"prefill_s":0.25,"decode_s":2.0},)" +
          kPrefix + "}}");
}

TEST(ChatWriter, a_streamed_answer_is_these_frames) {
  AnswerSetup streamed = setup();
  streamed.stream = true;
  streamed.include_usage = true;
  streamed.ignored_fields = {"zest"};
  ChatWriter writer(std::move(streamed));
  const std::string out = run(writer, "x여<｜end▁of▁sentence｜>");
  EXPECT_EQ(
      out, frame(R"({"index":0,"delta":{"role":"assistant","content":"x"},"logprobs":null,)"
                 R"("finish_reason":null})",
                 R"(,"usage":null,"yeoul":{"seed":5,"ignored_fields":["zest"]})") +
               frame(R"({"index":0,"delta":{"content":"여"},"logprobs":null,"finish_reason":null})",
                     R"(,"usage":null)") +
               frame(R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"})",
                     R"(,"usage":null)") +
               frame("", fmt::format(
                             R"(,"usage":{{"prompt_tokens":10,"completion_tokens":{},)"
                             R"("total_tokens":{},"prompt_tokens_details":{{"cached_tokens":4}},)"
                             R"("completion_tokens_details":{{"reasoning_tokens":0}}}},)"
                             R"("yeoul":{{"timings":{{"queue_s":0.5,"prefill_s":0.25,)"
                             R"("decode_s":2.0}},)",
                             writer.tracker().usage().output_tokens,
                             writer.tracker().usage().output_tokens + 10) +
                             kPrefix + "}") +
               "data: [DONE]\n\n");
}

TEST(ChatWriter, a_tool_call_comes_as_begin_and_pieces) {
  AnswerSetup streamed = setup();
  streamed.stream = true;
  ChatWriter writer(std::move(streamed));
  const std::string out = run(writer,
                              "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"
                              "<｜DSML｜ parameter name=\"a\" string=\"false\">1</｜DSML｜ "
                              "parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>");
  EXPECT_NE(out.find(R"("delta":{"tool_calls":[{"index":0,"id":"call_)"), std::string::npos) << out;
  EXPECT_NE(out.find(R"("type":"function","function":{"name":"f","arguments":""}}])"),
            std::string::npos)
      << out;
  EXPECT_NE(out.find(R"("tool_calls":[{"index":0,"function":{"arguments":)"), std::string::npos);
  EXPECT_NE(out.find(R"("finish_reason":"tool_calls")"), std::string::npos);
}

TEST(ChatWriter, the_role_goes_out_with_the_first_token_even_if_its_text_is_held_back) {
  AnswerSetup streamed = setup();
  streamed.stream = true;
  ChatWriter writer(std::move(streamed));
  std::vector<TokenId> ids;
  tokenizer()->encode_text("여", ids);  // three bytes, more than one token in this vocabulary
  ASSERT_GT(ids.size(), 1u);
  std::string out;
  writer.push(0, token_event(ids[0]), out);
  EXPECT_NE(out.find(R"("delta":{"role":"assistant","content":""})"), std::string::npos) << out;
}

TEST(ChatWriter, a_failure_ends_the_stream_with_an_error_and_without_done) {
  AnswerSetup streamed = setup();
  streamed.stream = true;
  ChatWriter writer(std::move(streamed));
  std::string out;
  writer.push(0, token_event(300), out);
  out.clear();
  RequestFinished failed;
  failed.status = fail(ErrorCode::kInternal, "a row was not finite");
  writer.push(0, failed, out);
  EXPECT_EQ(out,
            "data: {\"error\":{\"message\":\"a row was not finite\",\"type\":\"server_error\","
            "\"param\":null,\"code\":\"internal\"}}\n\n");
  EXPECT_TRUE(writer.ended());
}

TEST(ChatWriter, broken_markup_is_reported_beside_the_answer) {
  AnswerSetup reasoning = setup();
  reasoning.rules.parser.starts_in_reasoning = true;
  ChatWriter writer(reasoning);
  run(writer, "never ends");
  const Json body = *parse_json(writer.body());
  EXPECT_EQ(body["choices"][0]["message"]["reasoning_content"], "never ends");
  EXPECT_EQ(body["choices"][0]["message"]["content"], "");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["yeoul"]["problems"].size(), 1u);
  ChatWriter cut_off(reasoning);
  run(cut_off, "never ends", FinishReason::kLength);
  EXPECT_FALSE((*parse_json(cut_off.body()))["yeoul"].contains("problems"));
}

TEST(ChatWriter, lost_probability_is_a_number_json_can_hold) {
  AnswerSetup with_logprobs = setup();
  with_logprobs.with_logprobs = true;
  ChatWriter writer(std::move(with_logprobs));
  std::string out;
  TokenEvent event = token_event(300);
  event.top[0].logprob = -INFINITY;
  writer.push(0, event, out);
  writer.push(0, ChoiceFinished{}, out);
  writer.push(0, RequestFinished{}, out);
  const Json body = *parse_json(writer.body());
  const Json& entry = body["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(entry["logprob"], -0.5);
  EXPECT_EQ(entry["top_logprobs"][0]["logprob"], -9999.0);
}

}  // namespace
}  // namespace yeoul
