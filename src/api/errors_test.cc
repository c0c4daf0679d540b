#include "api/errors.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(Errors, every_code_and_reason_has_its_status) {
  const auto status = [](ErrorCode code, const char* reason) {
    return http_status(ApiError(code, "m", "", reason));
  };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument, ""), 400);
  EXPECT_EQ(status(ErrorCode::kUnsupported, ""), 400);
  EXPECT_EQ(status(ErrorCode::kNotFound, ""), 404);
  EXPECT_EQ(status(ErrorCode::kResourceExhausted, ""), 429);
  EXPECT_EQ(status(ErrorCode::kCancelled, ""), 499);
  EXPECT_EQ(status(ErrorCode::kCorrupt, ""), 500);
  EXPECT_EQ(status(ErrorCode::kInternal, ""), 500);
  EXPECT_EQ(status(ErrorCode::kUnavailable, ""), 503);
  EXPECT_EQ(status(ErrorCode::kInvalidArgument, "invalid_api_key"), 401);
  EXPECT_EQ(status(ErrorCode::kInvalidArgument, "body_too_large"), 413);
  EXPECT_EQ(status(ErrorCode::kUnavailable, "draining"), 503);
}

TEST(Errors, the_body_has_the_four_fields_of_openai) {
  EXPECT_EQ(format_error({ErrorCode::kInvalidArgument, "n: expected 1, found 2", "n"}),
            R"({"error":{"message":"n: expected 1, found 2","type":"invalid_request_error",)"
            R"("param":"n","code":"invalid_value"}})");
  EXPECT_EQ(format_error({ErrorCode::kInvalidArgument, "m", "", "context_length_exceeded"}),
            R"({"error":{"message":"m","type":"invalid_request_error","param":null,)"
            R"("code":"context_length_exceeded"}})");
}

TEST(Errors, a_message_with_invalid_utf8_still_makes_json) {
  EXPECT_EQ(format_error({ErrorCode::kInternal, "\xff"}),
            "{\"error\":{\"message\":\"\xEF\xBF\xBD\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":\"internal\"}}");
}

}  // namespace
}  // namespace yeoul
