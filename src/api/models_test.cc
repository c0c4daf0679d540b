#include "api/models.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace yeoul {
namespace {

const ServedModel kModel = {{"main", "alias"}, 1700000000, 4096};

TEST(Models, every_name_is_listed_with_the_context) {
  const Json list = *parse_json(format_models(kModel));
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][1]["id"], "alias");
  EXPECT_EQ(list["data"][1]["root"], "main");
  EXPECT_EQ(list["data"][0]["max_model_len"], 4096);
}

TEST(Models, an_unknown_name_is_refused_with_the_known_ones) {
  EXPECT_TRUE(check_model(kModel, "alias").has_value());
  const auto refused = format_model(kModel, "other");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(http_status(refused.error()), 404);
  EXPECT_EQ(refused.error().message, "model: \"other\" is not served here; served: main, alias");
}

}  // namespace
}  // namespace yeoul
