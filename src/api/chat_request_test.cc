#include "api/chat_request.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "api/completion_request.h"

namespace yeoul {
namespace {

ParseContext context() {
  ParseContext out;
  out.vocab_size = 512;
  out.random_seed = 4242;
  return out;
}

// A chat body with `fields` beside one user message.
std::string chat_with(const std::string& fields) {
  std::string body = R"({"messages":[{"role":"user","content":"hi"}])";
  if (!fields.empty()) body += "," + fields;
  return body + "}";
}

ApiResult<ChatRequest> parse_chat(const std::string& text) {
  auto body = parse_json(text);
  if (!body) {
    return refuse({ErrorCode::kInvalidArgument, body.error().message, "", "invalid_json"});
  }
  return parse_chat_request(*body, context());
}

struct Refusal {
  const char* body;
  const char* param;
  const char* message;  // a part of it
};

void expect_refused(const Refusal& row) {
  SCOPED_TRACE(row.body);
  const auto request = parse_chat(row.body);
  ASSERT_FALSE(request.has_value());
  EXPECT_EQ(http_status(request.error()), 400);
  EXPECT_EQ(request.error().param, row.param);
  EXPECT_NE(request.error().message.find(row.message), std::string::npos)
      << request.error().message;
}

void expect_field_refused(const char* fields, const char* param, const char* message) {
  const std::string body = chat_with(fields);
  expect_refused({body.c_str(), param, message});
}

TEST(ChatRequest, bodies_that_are_not_a_chat_are_refused_with_the_place) {
  for (const Refusal& row : {
           Refusal{"", "", "invalid JSON"},
           {"{", "", "invalid JSON"},
           {"{\"messages\": [}", "", "byte"},
           {"[]", "", "request body: expected an object, found an array of 0"},
           {"\"hi\"", "", "found the string \"hi\""},
           {"{}", "messages", "expected an array of at least one message, found null"},
           {R"({"messages":[]})", "messages", "found an array of 0"},
           {R"({"messages":"hi"})", "messages", "expected an array, found the string"},
           {R"({"messages":["hi"]})", "messages[0]", "expected an object"},
           {R"({"messages":[{"content":"hi"}]})", "messages[0].role", "found null"},
           {R"({"messages":[{"role":"root","content":"hi"}]})", "messages[0].role",
            "found the string \"root\""},
           {R"({"messages":[{"role":5,"content":"hi"}]})", "messages[0].role", "found 5"},
           {R"({"messages":[{"role":"user"}]})", "messages[0].content", "found null"},
           {R"({"messages":[{"role":"user","content":7}]})", "messages[0].content", "found 7"},
           {R"({"messages":[{"role":"user","content":["hi"]}]})", "messages[0].content[0]",
            "expected an object"},
           {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
            "messages[0].content[0].text", "expected a string"},
           {R"({"messages":[{"role":"user","content":[{"type":"smell"}]}]})",
            "messages[0].content[0].type", "\"smell\""},
           {R"({"messages":[{"role":"tool","content":"4"}]})", "messages[0].tool_call_id",
            "expected a string, found null"},
           {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})",
            "messages[0].tool_calls[0].function", "expected an object"},
           {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":""}}]}]})",
            "messages[0].tool_calls[0].function.name", "non-empty"},
           {R"({"messages":[{"role":"assistant","content":"a","prefix":true},)"
            R"({"role":"user","content":"b"}]})",
            "messages[0].prefix", "last message only"},
           {R"({"messages":[{"role":"user","content":"hi"}],"messages":[]})", "",
            "duplicate key \"messages\""},
           {R"({"messages":[{"role":"user","role":"user","content":"hi"}]})", "",
            "duplicate key \"role\""},
           {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]}", "", "invalid JSON"},
           {"{\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}]}", "", "invalid JSON"},
       }) {
    expect_refused(row);
  }
}

TEST(ChatRequest, wrong_types_and_ranges_name_field_expected_and_found) {
  for (const auto& [fields, param, message] : {
           std::tuple{R"("temperature":-0.1)", "temperature",
                      "temperature: expected a number from 0 to 2, found -0.1"},
           {R"("temperature":2.1)", "temperature", "found 2.1"},
           {R"("temperature":"NaN")", "temperature", "found the string \"NaN\""},
           {R"("temperature":NaN)", "", "invalid JSON"},
           {R"("temperature":1e999)", "", "invalid JSON"},
           {R"("top_p":0)", "top_p", "above 0"},
           {R"("top_p":1.5)", "top_p", "found 1.5"},
           {R"("top_p":[1])", "top_p", "found an array of 1"},
           {R"("top_k":1.5)", "top_k", "expected an integer"},
           {R"("min_p":-1)", "min_p", "found -1"},
           {R"("presence_penalty":3)", "presence_penalty", "from -2 to 2"},
           {R"("frequency_penalty":-3)", "frequency_penalty", "from -2 to 2"},
           {R"("repetition_penalty":0)", "repetition_penalty", "found 0"},
           {R"("max_tokens":0)", "max_tokens", "expected an integer from 1"},
           {R"("max_tokens":-1)", "max_tokens", "found -1"},
           {R"("max_tokens":1e30)", "max_tokens", "expected an integer from 1"},
           {R"("max_tokens":99999999999999999999)", "max_tokens", "expected an integer from 1"},
           {R"("max_tokens":"many")", "max_tokens", "found the string \"many\""},
           {R"("max_completion_tokens":0)", "max_completion_tokens", "found 0"},
           {R"("n":0)", "n", "from 1 to 16"},
           {R"("n":17)", "n", "found 17"},
           {R"("seed":"x")", "seed", "expected an integer"},
           {R"("stream":"yes")", "stream", "expected true or false"},
           {R"("stream_options":[])", "stream_options", "expected an object"},
           {R"("stream_options":{"include_usage":1})", "stream_options.include_usage", "found 1"},
           {R"("stop":5)", "stop", "found 5"},
           {R"("stop":"")", "stop", "1 to 1024 bytes"},
           {R"("stop":["a",7])", "stop", "found 7"},
           {R"("stop":["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])",
            "stop", "found an array of 17"},
           {R"("stop_token_ids":[512])", "stop_token_ids", "from 0 to 511, found 512"},
           {R"("stop_token_ids":["1"])", "stop_token_ids", "found the string"},
           {R"("logit_bias":{"x":1})", "logit_bias", "found the string \"x\""},
           {R"("logit_bias":{"512":1})", "logit_bias", "from 0 to 511"},
           {R"("logit_bias":{"5":101})", "logit_bias.5", "from -100 to 100, found 101"},
           {R"("logprobs":2)", "logprobs", "expected true or false"},
           {R"("top_logprobs":2)", "top_logprobs", "logprobs: true"},
           {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "from 0 to 20"},
           {R"("model":7)", "model", "expected a string"},
           {R"("reasoning_effort":"huge")", "reasoning_effort", "found the string \"huge\""},
           {R"("reasoning_effort":0)", "reasoning_effort", "from 1 to 100"},
           {R"("thinking":{"type":"maybe"})", "thinking.type", "found the string \"maybe\""},
           {R"("chat_template_kwargs":{"enable_thinking":"no"})",
            "chat_template_kwargs.enable_thinking", "expected true or false"},
           {R"("tools":[{}])", "tools[0].function", "expected an object"},
           {R"("tools":[{"function":{}}])", "tools[0].function.name", "non-empty"},
           {R"("tools":[{"function":{"name":"f","parameters":[]}}])",
            "tools[0].function.parameters", "expected an object"},
           {R"("tool_choice":"required")", "tool_choice", "tools to choose from"},
           {R"("tool_choice":"sometimes")", "tool_choice", "found the string \"sometimes\""},
           {R"("parallel_tool_calls":"no")", "parallel_tool_calls", "expected true or false"},
           {R"("response_format":{"type":"xml"})", "response_format.type", "found the string"},
       }) {
    expect_field_refused(fields, param, message);
  }
}

TEST(ChatRequest, known_fields_that_cannot_be_honoured_are_refused_by_name) {
  for (const auto& [fields, param] : {
           std::pair{R"("response_format":{"type":"json_object"})", "response_format.type"},
           {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format.type"},
           {R"("tools":[{"type":"function","function":{"name":"f"}}],)"
            R"("tool_choice":{"type":"function","function":{"name":"f"}})",
            "tool_choice"},
           {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
           {R"("tools":[{"function":{"name":"f","strict":true}}])", "tools[0].function.strict"},
           {R"("functions":[])", "functions"},
           {R"("guided_json":{})", "guided_json"},
           {R"("min_tokens":5)", "min_tokens"},
           {R"("best_of":2)", "best_of"},
           {R"("modalities":["text","audio"])", "modalities"},
           {R"("thinking":{"type":"enabled","budget_tokens":5})", "thinking.budget_tokens"},
       }) {
    const std::string body = chat_with(fields);
    expect_refused({body.c_str(), param, "known but not supported"});
    EXPECT_EQ(parse_chat(body).error().code, ErrorCode::kUnsupported);
  }
  expect_refused({R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":)"
                  R"({"url":"data:"}}]}]})",
                  "messages[0].content[0].type", "image input is not built in yet"});
}

TEST(ChatRequest, harmless_spellings_of_known_fields_are_accepted) {
  const auto request = parse_chat(chat_with(
      R"("min_tokens":0,"best_of":1,"response_format":{"type":"text"},"modalities":["text"],)"
      R"("guided_json":null,"temperature":null,"stop":null,"top_k":-1,"max_tokens":5.0,)"
      R"("user":"u","metadata":{"a":"b"},"store":false,"tools":[])"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_TRUE(request->fields.ignored_fields.empty());
  EXPECT_EQ(request->fields.sampling.top_k, 0);
  EXPECT_EQ(request->fields.max_tokens, 5);
}

TEST(ChatRequest, unknown_fields_are_accepted_and_listed_once_without_indices) {
  const auto request = parse_chat(
      R"({"messages":[{"role":"user","content":"a","name":"x"},{"role":"user","content":"b",)"
      R"("name":"y"}],"zest":1,"stream_options":{"colour":2},"unset":null})");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->fields.ignored_fields,
            (std::vector<std::string>{"stream_options.colour", "messages[].name", "zest"}));
}

TEST(ChatRequest, two_thousand_unknown_fields_fill_a_bounded_list) {
  std::string fields = "\"f0\":1";
  for (int i = 1; i < 2000; ++i) fields += ",\"f" + std::to_string(i) + "\":1";
  const auto request = parse_chat(chat_with(fields));
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->fields.ignored_fields.size(), 64u);
}

TEST(ChatRequest, fields_arrive_in_native_types) {
  const auto request = parse_chat(chat_with(
      R"("model":"m","temperature":0.5,"top_p":0.25,"top_k":7,"min_p":0.125,"seed":-3,)"
      R"("presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.5,"n":3,)"
      R"("logit_bias":{"5":-100,"6":2.5},"logprobs":true,"top_logprobs":4,"stop":["a","b"],)"
      R"("stop_token_ids":[9],"ignore_eos":true,"stream":true,"max_tokens":4,)"
      R"("max_completion_tokens":8,"stream_options":{"include_usage":true},)"
      R"("parallel_tool_calls":false)"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const GenerationFields& fields = request->fields;
  EXPECT_EQ(fields.model, "m");
  EXPECT_EQ(fields.sampling.temperature, 0.5f);
  EXPECT_EQ(fields.sampling.top_p, 0.25f);
  EXPECT_EQ(fields.sampling.top_k, 7);
  EXPECT_EQ(fields.sampling.min_p, 0.125f);
  EXPECT_EQ(static_cast<int64_t>(fields.sampling.seed), -3);
  EXPECT_EQ(fields.sampling.presence_penalty, 1);
  EXPECT_EQ(fields.sampling.frequency_penalty, -1);
  EXPECT_EQ(fields.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(fields.sampling.logit_bias,
            (std::vector<std::pair<TokenId, float>>{{5, -100.f}, {6, 2.5f}}));
  EXPECT_EQ(fields.sampling.num_top_logprobs, 4);
  EXPECT_EQ(fields.num_choices, 3);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(fields.stop_token_ids, std::vector<TokenId>{9});
  EXPECT_EQ(fields.max_tokens, 8);
  EXPECT_TRUE(fields.ignore_eos && fields.stream && fields.include_usage);
  EXPECT_FALSE(fields.continuous_usage);
  EXPECT_TRUE(request->one_tool_call);
}

TEST(ChatRequest, without_a_seed_the_random_one_is_taken) {
  EXPECT_EQ(parse_chat(chat_with(""))->fields.sampling.seed, 4242u);
  EXPECT_EQ(parse_chat(chat_with("\"seed\":0"))->fields.sampling.seed, 0u);
}

TEST(ChatRequest, every_spelling_of_thinking_is_understood) {
  for (const auto& [fields, enabled, effort] : {
           std::tuple{"", true, 75},
           {R"("reasoning_effort":"none")", false, 75},
           {R"("reasoning_effort":"minimal")", true, 25},
           {R"("reasoning_effort":"low")", true, 50},
           {R"("reasoning_effort":"medium")", true, 75},
           {R"("reasoning_effort":"high")", true, 75},
           {R"("reasoning_effort":"xhigh")", true, 100},
           {R"("reasoning_effort":"max")", true, 100},
           {R"("reasoning_effort":33)", true, 33},
           {R"("thinking":{"type":"disabled"})", false, 75},
           {R"("thinking":{"type":"disabled"},"reasoning_effort":"low")", false, 50},
           {R"("thinking":{"type":"enabled"},"reasoning_effort":"low")", true, 50},
           {R"("chat_template_kwargs":{"enable_thinking":false})", false, 75},
           {R"("chat_template_kwargs":{"thinking":false})", false, 75},
           {R"("chat_template_kwargs":{"reasoning_effort":"max"})", true, 100},
       }) {
    SCOPED_TRACE(fields);
    const auto request = parse_chat(chat_with(fields));
    ASSERT_TRUE(request.has_value()) << request.error().message;
    EXPECT_EQ(request->conversation.thinking.enabled, enabled);
    EXPECT_EQ(request->conversation.thinking.effort, effort);
  }
}

TEST(ChatRequest, messages_of_every_role_and_shape_are_read) {
  const auto request = parse_chat(
      R"({"messages":[
        {"role":"system","content":"s"},
        {"role":"developer","content":[{"type":"text","text":"d1"},{"type":"text","text":"d2"}]},
        {"role":"user","content":"u"},
        {"role":"assistant","content":null,"reasoning_content":"why",
         "tool_calls":[{"id":"c1","type":"function",
                        "function":{"name":"f","arguments":"{\"b\":1,\"a\":2}"}}]},
        {"role":"tool","tool_call_id":"c1","content":"42"},
        {"role":"latest_reminder","content":"r"},
        {"role":"assistant","content":"begun","prefix":true}]})");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  const std::vector<Message>& messages = request->conversation.messages;
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[1].content.size(), 2u);
  EXPECT_EQ(messages[3].reasoning, "why");
  EXPECT_TRUE(messages[3].content.empty());
  ASSERT_EQ(messages[3].tool_calls.size(), 1u);
  EXPECT_EQ(messages[3].tool_calls[0].arguments, R"({"b":1,"a":2})");
  EXPECT_EQ(messages[4].tool_call_id, "c1");
  EXPECT_EQ(messages[5].role, Role::kLatestReminder);
  EXPECT_TRUE(messages[6].continues);
  EXPECT_FALSE(messages[3].continues);
}

TEST(ChatRequest, a_tool_keeps_the_key_order_of_the_client) {
  const auto request = parse_chat(chat_with(
      R"("tools":[{"type":"function","function":{"name":"f","z":1,"parameters":{"b":1,"a":2}}}])"));
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(dump_compact(request->conversation.tools[0].function),
            R"({"name":"f","z":1,"parameters":{"b":1,"a":2}})");
}

TEST(ChatRequest, ten_thousand_messages_and_a_two_megabyte_schema_parse) {
  std::string body = R"({"tools":[{"function":{"name":"f","description":")";
  body += std::string(2'000'000, 'd') + R"("}}],"messages":[)";
  for (int i = 0; i < 10'000; ++i) {
    body += i == 0 ? "" : ",";
    body += R"({"role":"user","content":"m"})";
  }
  const auto request = parse_chat(body + "]}");
  ASSERT_TRUE(request.has_value()) << request.error().message;
  EXPECT_EQ(request->conversation.messages.size(), 10'000u);
}

TEST(CompletionRequest, prompts_come_as_text_or_tokens_one_or_many) {
  const auto parse = [](const std::string& text) {
    return parse_completion_request(*parse_json(text), context());
  };
  EXPECT_EQ(std::get<std::string>(parse(R"({"prompt":"a"})")->prompts.at(0)), "a");
  EXPECT_EQ(parse(R"({"prompt":["a","b"]})")->prompts.size(), 2u);
  EXPECT_EQ(std::get<std::vector<TokenId>>(parse(R"({"prompt":[1,2]})")->prompts.at(0)),
            (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(parse(R"({"prompt":[[1],[2,3]]})")->prompts.size(), 2u);
  EXPECT_EQ(parse(R"({"prompt":"a"})")->fields.max_tokens, 16);
  EXPECT_EQ(parse(R"({"prompt":"a","logprobs":3})")->fields.sampling.num_top_logprobs, 3);
  for (const auto& [body, param] : {
           std::pair{"{}", "prompt"},
           {R"({"prompt":[]})", "prompt"},
           {R"({"prompt":7})", "prompt"},
           {R"({"prompt":[512]})", "prompt"},
           {R"({"prompt":[1.5]})", "prompt"},
           {R"({"prompt":[[]]})", "prompt[0]"},
           {R"({"prompt":[["a"]]})", "prompt[0]"},
           {R"({"prompt":"a","echo":true})", "echo"},
           {R"({"prompt":"a","suffix":"b"})", "suffix"},
           {R"({"prompt":"a","logprobs":true})", "logprobs"},
       }) {
    SCOPED_TRACE(body);
    const auto request = parse(body);
    ASSERT_FALSE(request.has_value());
    EXPECT_EQ(request.error().param, param);
  }
}

}  // namespace
}  // namespace yeoul
