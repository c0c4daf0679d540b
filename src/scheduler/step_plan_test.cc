#include "scheduler/step_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

// Any plan whose offsets stay inside its arrays; fields take extreme values too.
StepPlan random_plan(uint64_t seed) {
  uint64_t draws = 0;
  const auto bits = [&] { return counter_bits(mix64(seed), draws++); };
  const auto number = [&](uint64_t max) { return static_cast<int32_t>(bits() % (max + 1)); };
  StepPlan plan;
  plan.step_id = seed % 3 == 0 ? ~uint64_t{0} - seed : bits();
  for (int32_t i = number(12); i > 0; --i) plan.tokens.push_back(static_cast<TokenId>(bits()));
  for (int32_t i = number(12); i > 0; --i) plan.pages.push_back(number(1000));
  for (int32_t i = number(5); i > 0; --i) {
    StepItem item;
    item.slot = number(255);
    item.position = static_cast<int64_t>(bits() >> 1);
    item.first_token = number(plan.tokens.size());
    item.num_tokens = number(plan.tokens.size() - static_cast<size_t>(item.first_token));
    item.num_draft = number(5);
    item.first_page = number(plan.pages.size());
    item.num_pages = number(plan.pages.size() - static_cast<size_t>(item.first_page));
    item.layers = {number(20), 20 + number(20)};
    item.cone_end = bits() % 2 == 0 ? kFullSchedule : static_cast<int64_t>(bits() >> 1);
    item.logits = static_cast<LogitsFor>(number(2));
    plan.items.push_back(item);
  }
  for (int32_t i = plan.tokens.empty() ? 0 : number(3); i > 0; --i)
    plan.pending.push_back(
        {.token_index = number(plan.tokens.size() - 1), .step_id = bits(), .item = number(15)});
  return plan;
}

TEST(StepPlan, any_plan_survives_the_round_trip) {
  EXPECT_EQ(*parse_step_plan(serialize(StepPlan{})), StepPlan{});
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const StepPlan plan = random_plan(seed);
    const Result<StepPlan> back = parse_step_plan(serialize(plan));
    ASSERT_TRUE(back) << "seed " << seed << ": " << back.error().message;
    ASSERT_EQ(*back, plan) << "seed " << seed;
    ASSERT_EQ(serialize(*back), serialize(plan)) << "seed " << seed;
  }
}

TEST(StepPlan, prints_one_line_an_item) {
  StepPlan plan;
  plan.step_id = 7;
  plan.tokens = {1, 2, 3, 4};
  plan.pages = {5, 6};
  plan.items = {{.slot = 0,
                 .position = 16,
                 .num_tokens = 3,
                 .num_pages = 2,
                 .layers = {0, 40},
                 .cone_end = 19,
                 .logits = LogitsFor::kLastToken},
                {.slot = 3, .position = 8, .num_tokens = 1, .first_token = 3, .layers = {0, 40}}};
  EXPECT_EQ(to_string(plan),
            "step 7: 2 items, 4 tokens\n"
            "  slot 0 positions [16, 19) draft 0 layers [0, 40) cone 19 logits last pages 2\n"
            "  slot 3 positions [8, 9) draft 0 layers [0, 40) logits none pages 0\n");
}

void expect_error(const std::string& text, ErrorCode code, const std::string& message) {
  const Result<StepPlan> result = parse_step_plan(text);
  ASSERT_FALSE(result) << text;
  EXPECT_EQ(result.error().code, code) << text;
  EXPECT_NE(result.error().message.find(message), std::string::npos) << result.error().message;
}

// The serialized plan of one item, with `from` replaced by `to`.
std::string altered(const std::string& from, const std::string& to) {
  StepPlan plan;
  plan.tokens = {11};
  plan.pages = {4};
  plan.items = {{.slot = 2, .position = 9, .num_tokens = 1, .num_pages = 1, .layers = {0, 8}}};
  plan.pending = {{.token_index = 0, .step_id = 1, .item = 0}};
  std::string text = serialize(plan);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

TEST(StepPlan, text_that_is_no_plan_is_refused_by_field) {
  const ErrorCode corrupt = ErrorCode::kCorrupt;
  expect_error("{", ErrorCode::kInvalidArgument, "JSON");
  expect_error("[]", corrupt, "not an object");
  expect_error("{}", corrupt, "field 'items' is not an array");
  expect_error(altered("\"slot\":2", "\"slod\":2"), corrupt, "field 'slot' is missing");
  expect_error(altered("\"slot\":2", "\"slot\":2.5"), corrupt, "field 'slot' is not an integer");
  expect_error(altered("\"slot\":2", "\"slot\":3000000000"), corrupt, "out of range: 3000000000");
  expect_error(altered("\"none\"", "\"some\""), corrupt, "'logits' is not none, last or every");
  expect_error(altered("[0,8]", "[0]"), corrupt, "'layers' is not [begin, end]");
  expect_error(altered("\"tokens\":[11]", "\"tokens\":[true]"), corrupt, "'tokens'");
  expect_error(altered("\"pages\":[4]", "\"pages\":4"), corrupt, "'pages' is not an array");
  expect_error(altered("[{\"slot\"", "[7,{\"slot\""), corrupt, "item is not an object");
  expect_error(altered("[{\"token_index\"", "[7,{\"token_index\""), corrupt, "pending token is");
}

TEST(StepPlan, offsets_beyond_the_arrays_are_refused) {
  const ErrorCode corrupt = ErrorCode::kCorrupt;
  expect_error(altered("\"num_tokens\":1", "\"num_tokens\":2"), corrupt, "tokens 0+2 of 1");
  expect_error(altered("\"num_tokens\":1", "\"num_tokens\":-1"), corrupt, "tokens 0+-1 of 1");
  expect_error(altered("\"first_page\":0", "\"first_page\":1"), corrupt, "pages 1+1 of 1");
  expect_error(altered("\"token_index\":0", "\"token_index\":1"), corrupt, "pending token 1 of 1");
}

}  // namespace
}  // namespace yeoul
