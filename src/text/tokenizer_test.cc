#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "base/json.h"

namespace yeoul {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kTinyPath = "models/tiny-random/tokenizer.json";

std::string tiny_text() {
  std::ifstream file(kTinyPath, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::shared_ptr<const Tokenizer> tiny() {
  auto tokenizer = Tokenizer::load(kTinyPath);
  EXPECT_TRUE(tokenizer) << tokenizer.error().message;
  return *tokenizer;
}

std::vector<TokenId> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode_text(text, ids);
  return ids;
}

std::vector<TokenId> encode_with_markers(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids;
  tokenizer.encode_with_markers(text, ids);
  return ids;
}

// The error of the tiny file after `edit`.
template <typename Edit>
Error error_after(const Edit& edit) {
  Json document = *parse_json(tiny_text());
  edit(document);
  auto tokenizer = Tokenizer::parse(document.dump());
  EXPECT_FALSE(tokenizer);
  return tokenizer ? Error{} : tokenizer.error();
}

TEST(Tokenizer, every_byte_string_comes_back_from_its_tokens) {
  const auto tokenizer = tiny();
  std::string bytes;
  for (int byte = 255; byte >= 0; --byte) bytes.push_back(static_cast<char>(byte));
  for (const std::string& text : {bytes, std::string("여울 is a stream, 12345 <think>\n\n\t  ")}) {
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text);
    EXPECT_EQ(tokenizer->decode(encode_with_markers(*tokenizer, text)), text);
  }
}

// "Ġthe" stands in this vocabulary, but "t h" merges before "Ġ t".
TEST(Tokenizer, an_entry_that_merging_does_not_reach_is_not_used) {
  const auto tokenizer = tiny();
  const std::vector<TokenId> ids = encode(*tokenizer, "the the");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(tokenizer->token_bytes(ids[0]), "the");
  EXPECT_EQ(tokenizer->token_bytes(ids[1]), " ");
  EXPECT_EQ(tokenizer->token_entry(ids[1]), "Ġ");
  EXPECT_EQ(ids[2], ids[0]);
}

TEST(Tokenizer, marker_spellings_stay_text_unless_markers_are_asked_for) {
  const auto tokenizer = tiny();
  const std::string text = "<｜User｜>hi</think>";
  for (const TokenId id : encode(*tokenizer, text)) EXPECT_FALSE(tokenizer->is_marker(id));
  const std::vector<TokenId> ids = encode_with_markers(*tokenizer, text);
  EXPECT_EQ(ids.front(), 500);
  EXPECT_EQ(ids.back(), 503);
  EXPECT_EQ(tokenizer->marker("</think>"), 503);
  EXPECT_TRUE(tokenizer->is_marker(503));
  EXPECT_EQ(tokenizer->token_bytes(503), "</think>");
  EXPECT_FALSE(tokenizer->marker("the"));
}

TEST(Tokenizer, ids_outside_the_vocabulary_stand_for_nothing) {
  const auto tokenizer = tiny();
  EXPECT_EQ(tokenizer->vocab_size(), 512);
  for (const TokenId id : {-1, 512, 1 << 30}) {
    EXPECT_EQ(tokenizer->token_bytes(id), "");
    EXPECT_EQ(tokenizer->token_entry(id), "");
    EXPECT_FALSE(tokenizer->is_marker(id));
  }
}

TEST(Tokenizer, non_normalized_markers_are_cut_out_before_normalized_ones) {
  Json document = *parse_json(tiny_text());
  document["added_tokens"].push_back({{"id", 600}, {"content", "<x>"}, {"normalized", true}});
  document["added_tokens"].push_back({{"id", 601}, {"content", ">ab"}, {"normalized", false}});
  const auto tokenizer = Tokenizer::parse(document.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_THAT(encode_with_markers(**tokenizer, "<x>ab").back(), 601);
  EXPECT_THAT(encode_with_markers(**tokenizer, "<x>"), ElementsAre(600));
}

TEST(Tokenizer, merges_may_be_pairs) {
  Json document = *parse_json(tiny_text());
  for (Json& merge : document["model"]["merges"]) {
    const std::string line = merge.get<std::string>();
    const size_t space = line.find(' ');
    merge = Json::array({line.substr(0, space), line.substr(space + 1)});
  }
  const auto tokenizer = Tokenizer::parse(document.dump());
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ(encode(**tokenizer, "with all of them"), encode(*tiny(), "with all of them"));
}

// Quadratic work would take minutes here.
TEST(Tokenizer, long_runs_of_anything_come_back_from_their_tokens) {
  const auto tokenizer = tiny();
  for (const std::string unit : {"a", " ", "\n", "7", "\u0301", "你", "ab", "<", "\xFF"}) {
    std::string text;
    while (text.size() < 300'000) text += unit;
    EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text)), text);
    EXPECT_EQ(tokenizer->decode(encode_with_markers(*tokenizer, text)), text);
  }
}

TEST(Tokenizer, many_threads_may_encode_at_once) {
  const auto tokenizer = tiny();
  const std::string text(20000, 'a');
  const std::vector<TokenId> expected = encode(*tokenizer, text);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_EQ(encode(*tokenizer, text), expected); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerFile, another_scheme_is_refused_by_name) {
  const auto expect = [](const auto& edit, std::string_view part) {
    const Error error = error_after(edit);
    EXPECT_EQ(error.code, ErrorCode::kUnsupported) << error.message;
    EXPECT_THAT(error.message, HasSubstr(std::string(part)));
  };
  expect([](Json& d) { d["model"]["type"] = "Unigram"; }, "model.type: \"BPE\" expected");
  expect([](Json& d) { d["model"]["unk_token"] = "?"; }, "model.unk_token");
  expect([](Json& d) { d["model"]["end_of_word_suffix"] = "_"; }, "model.end_of_word_suffix");
  expect([](Json& d) { d["model"]["byte_fallback"] = true; }, "model.byte_fallback");
  expect([](Json& d) { d["normalizer"] = {{"type", "NFC"}}; }, "normalizer: none expected");
  expect([](Json& d) { d["truncation"] = {{"max_length", 5}}; }, "truncation: null expected");
  expect([](Json& d) { d["post_processor"] = {{"type", "TemplateProcessing"}}; },
         "post_processor: ByteLevel");
  expect([](Json& d) { d["added_tokens"][3]["lstrip"] = true; }, "added_tokens[3].lstrip");
  expect([](Json& d) { d["pre_tokenizer"]["pretokenizers"].erase(0); },
         "pre_tokenizer: a Sequence");
  expect([](Json& d) { d["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"] = "[a-z]+"; },
         "pretokenizers[1]: split pattern \"[一-龥");
  expect([](Json& d) { d["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; },
         "pretokenizers[0]: behavior Isolated");
  expect([](Json& d) { d["pre_tokenizer"]["pretokenizers"][3]["use_regex"] = true; },
         "pretokenizers[3]: ByteLevel");
}

TEST(TokenizerFile, contradictions_are_named_with_the_place) {
  const auto expect = [](const auto& edit, std::string_view part) {
    const Error error = error_after(edit);
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << error.message;
    EXPECT_THAT(error.message, HasSubstr(std::string(part)));
  };
  expect([](Json& d) { d["model"]["vocab"]["!"] = 4; }, "id 4: one entry expected");
  expect([](Json& d) { d["model"]["vocab"]["!"] = -4; }, "model.vocab[\"!\"]: id expected");
  expect([](Json& d) { d["model"]["vocab"]["!"] = "4"; }, "found a string");
  expect([](Json& d) { d["model"]["vocab"]["!"] = 1 << 21; }, "id below 2097152 expected");
  expect([](Json& d) { d["model"]["vocab"].erase("!"); }, "\"!\" for byte 0x21 expected");
  expect([](Json& d) { d["model"]["vocab"][""] = 700; }, "non-empty entry");
  expect([](Json& d) { d["model"]["vocab"]["가"] = 700; }, "characters of the byte alphabet");
  expect([](Json& d) { d["model"]["merges"][0] = "ab"; }, "model.merges[0]: \"left right\"");
  expect([](Json& d) { d["model"]["merges"][0] = 5; }, "found a number");
  expect([](Json& d) { d["model"]["merges"][0] = {"a"}; }, "found 1 strings");
  expect([](Json& d) { d["model"]["merges"][0] = "a !"; }, "\"a!\" expected in model.vocab");
  expect([](Json& d) { d["model"]["merges"][1] = d["model"]["merges"][0]; }, "is there twice");
  expect([](Json& d) { d["added_tokens"][3]["content"] = ""; }, "added_tokens[3].content: text");
  expect([](Json& d) { d["added_tokens"][3]["id"] = "x"; }, "added_tokens[3].id: id expected");
  expect([](Json& d) { d["added_tokens"][3]["content"] = "!"; }, "as in model.vocab expected");
  expect([](Json& d) { d["added_tokens"][3]["content"] = "<think>"; }, "is there twice");
  expect(
      [](Json& d) {
        d["added_tokens"][3] = {{"id", d["model"]["vocab"]["\""]}, {"content", "\""}};
      },
      "\"\"\": an added token or a part of merges expected");
  expect(
      [](Json& d) {
        d["added_tokens"][3] = {{"id", d["model"]["vocab"]["th"]}, {"content", "th"}};
      },
      "\"th\": an added token or a part of merges expected");
  expect([](Json& d) { d["added_tokens"] = 1; }, "added_tokens: array expected");
}

TEST(TokenizerFile, rubbish_duplicate_keys_and_missing_files_are_errors) {
  EXPECT_EQ(Tokenizer::parse("{").error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(Tokenizer::parse(R"({"a":1,"a":2})").error().message, HasSubstr("duplicate key"));
  EXPECT_THAT(Tokenizer::parse(R"({"model":{"vocab":{"a":1,"a":2}}})").error().message,
              HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(Tokenizer::parse(std::string(100, '[')).error().message, HasSubstr("nested deeper"));
  EXPECT_EQ(Tokenizer::parse("[1]").error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(Tokenizer::load("no/such/file").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace yeoul
