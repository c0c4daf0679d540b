#include "server/api_keys.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "server/server.h"

namespace yeoul {
namespace {

TEST(ApiKeys, only_the_whole_key_is_equal) {
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  for (const char* given : {"", "s", "secre", "secrets", "secretsecret", "SECRET"}) {
    EXPECT_FALSE(equal_in_constant_time("secret", given)) << given;
  }
  EXPECT_FALSE(equal_in_constant_time("", ""));
  EXPECT_FALSE(equal_in_constant_time("", "a"));
}

TEST(ApiKeys, a_file_holds_one_key_a_line) {
  const std::string path = testing::TempDir() + "yeoul_api_keys";
  std::ofstream(path) << "# keys\n\n first \r\nsecond\n";
  const auto keys = load_api_keys(path);
  ASSERT_TRUE(keys.has_value());
  EXPECT_EQ(*keys, (std::vector<std::string>{"first", "second"}));
  std::ofstream(path) << "# nothing\n";
  EXPECT_EQ(load_api_keys(path).error().code, ErrorCode::kInvalidArgument);
  std::remove(path.c_str());
  EXPECT_EQ(load_api_keys(path).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace yeoul
