#include <gtest/gtest.h>

#include "allocation_count.h"
#include "counting_new.h"
#include "house.h"

namespace yeoul::simulation {
namespace {

TEST(StepAllocation, the_counter_counts) {
  const int64_t before = num_allocations();
  const auto number = std::make_unique<int>(1);
  EXPECT_EQ(num_allocations() - before, 1) << *number;
}

TEST(StepAllocation, no_step_allocates_beyond_what_admission_needs) {
  const AllocationCount count = count_allocations(5000);
  EXPECT_EQ(count.in_plain_steps, 0);
  EXPECT_EQ(count.beyond_admission, 0);
  // The traffic was as mixed as it claims.
  EXPECT_GT(count.plain_steps, 3000);
  EXPECT_GT(count.plain_steps_with_endings, 300);
  EXPECT_GT(count.admissions, 500);
}

TEST(StepAllocation, a_real_lack_of_memory_at_admission_ends_that_request_only) {
  House house;
  const Question question = make_question(1, 4, 5);
  RequestHandle small = house.submit(question);
  RequestHandle big = house.submit(make_question(2, 4, 190));
  {
    const FailingAllocations failing(190 * sizeof(TokenId));
    house.engine->step();
  }
  house.settle();
  const Answer failed = read(big);
  ASSERT_TRUE(failed.ending && !failed.ending->status);
  EXPECT_EQ(failed.ending->status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(failed.ending->status.error().message.find("190 output tokens"), std::string::npos);
  EXPECT_EQ(read(small).tokens[0], expected_choice(house.options.script, question, 0).tokens);
}

}  // namespace
}  // namespace yeoul::simulation
