#include "server/http_text.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(HttpText, a_path_loses_its_query_and_its_escapes) {
  EXPECT_EQ(path_of("/v1/models?limit=2"), "/v1/models");
  EXPECT_EQ(path_of("/v1/models/a%2Fb%20c"), "/v1/models/a/b c");
  EXPECT_EQ(path_of("/%zz%4"), "/%zz%4");
  EXPECT_EQ(path_of("/%"), "/%");
  EXPECT_EQ(path_of("?"), "");
}

TEST(HttpText, a_head_names_status_framing_and_headers) {
  HttpReply reply;
  reply.status = 429;
  reply.headers = {{"Retry-After", "3"}};
  EXPECT_EQ(format_head(reply, "Content-Length: 5", true),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\n"
            "Content-Length: 5\r\nRetry-After: 3\r\n\r\n");
  EXPECT_NE(format_head(reply, "Content-Length: 5", false).find("Connection: close\r\n"),
            std::string::npos);
}

TEST(HttpText, a_chunk_carries_its_length_in_hex) {
  EXPECT_EQ(format_chunk("0123456789abcdefg"), "11\r\n0123456789abcdefg\r\n");
}

}  // namespace
}  // namespace yeoul
