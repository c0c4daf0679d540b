#include "engine/request_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>

namespace yeoul {
namespace {

constexpr RequestLimits kLimits = {
    .vocab_size = 100, .context_max = 50, .kv_positions = 40, .sequences_max = 8};

GenerateRequest good_request() {
  GenerateRequest request;
  request.prompt = {1, 2, 3};
  request.max_tokens = 10;
  return request;
}

class AnyToken final : public TokenConstraint {
 public:
  bool mask_next(std::span<uint64_t>) override { return false; }
  Verdict accept(TokenId) override { return Verdict::kContinue; }
};

void expect_refusal(const std::function<void(GenerateRequest&)>& change, const std::string& text) {
  GenerateRequest request = good_request();
  change(request);
  const Result<void> result = check_request(request, kLimits);
  ASSERT_FALSE(result) << "expected: " << text;
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(result.error().message.find(text), std::string::npos) << result.error().message;
}

TEST(RequestCheck, a_good_request_passes) {
  EXPECT_TRUE(check_request(good_request(), kLimits));
  GenerateRequest request = good_request();
  request.num_choices = 8;
  for (int i = 0; i < 8; ++i) request.constraints.push_back(std::make_unique<AnyToken>());
  request.stop_token_ids = {0, 99};
  EXPECT_TRUE(check_request(request, kLimits));
}

TEST(RequestCheck, what_can_never_be_served_is_refused_by_name) {
  expect_refusal([](auto& r) { r.prompt.clear(); }, "prompt: at least one token");
  expect_refusal([](auto& r) { r.prompt[1] = 100; }, "prompt: entry 1 is token 100");
  expect_refusal([](auto& r) { r.prompt[2] = -1; }, "prompt: entry 2 is token -1");
  expect_refusal([](auto& r) { r.stop_token_ids = {7, 200}; }, "stop_token_ids: entry 1 is token");
  expect_refusal([](auto& r) { r.num_choices = 0; }, "n: 1 to 8 expected, 0 found");
  expect_refusal([](auto& r) { r.num_choices = 9; }, "n: 1 to 8 expected, 9 found");
  expect_refusal([](auto& r) { r.max_tokens = -1; }, "max_tokens: at least 0 expected, -1 found");
  expect_refusal([](auto& r) { r.deadline = Duration(-1); }, "deadline: not negative");
  expect_refusal([](auto& r) { r.sampling.temperature = NAN; }, "temperature");
  expect_refusal([](auto& r) { r.sampling.top_p = 0; }, "top_p");
  expect_refusal(
      [](auto& r) {
        r.constraints.push_back(std::make_unique<AnyToken>());
        r.num_choices = 2;
      },
      "constraints: none or one per choice (2) expected, 1 found");
}

TEST(RequestCheck, a_length_beyond_the_context_is_refused_with_the_numbers_that_would_work) {
  expect_refusal([](auto& r) { r.max_tokens = 48; },
                 "the prompt has 3 tokens and max_tokens is 48, but the context is 50 tokens; use "
                 "max_tokens of at most 47");
  expect_refusal(
      [](auto& r) {
        r.prompt.assign(50, 1);
        r.max_tokens = 0;
      },
      "shorten the prompt to at most 49 tokens");
  expect_refusal([](auto& r) { r.max_tokens = INT64_MAX; }, "use max_tokens of at most 47");
}

TEST(RequestCheck, a_length_beyond_the_kv_memory_is_refused_with_the_numbers_that_would_work) {
  expect_refusal([](auto& r) { r.max_tokens = 39; },
                 "but the KV memory holds 40 tokens; use max_tokens of at most 38");
  expect_refusal(
      [](auto& r) {
        r.prompt.assign(45, 1);
        r.max_tokens = 1;
      },
      "shorten the prompt to at most 40 tokens");
  GenerateRequest request = good_request();
  request.max_tokens = 38;  // positions 0..39 are computed
  EXPECT_TRUE(check_request(request, kLimits));
}

TEST(RequestCheck, max_tokens_zero_means_as_many_as_context_and_memory_allow) {
  GenerateRequest request = good_request();
  EXPECT_EQ(output_max(request, kLimits), 10);
  request.max_tokens = 0;
  EXPECT_EQ(output_max(request, kLimits), 38);
  RequestLimits roomy = kLimits;
  roomy.kv_positions = 1000;
  EXPECT_EQ(output_max(request, roomy), 47);
}

}  // namespace
}  // namespace yeoul
