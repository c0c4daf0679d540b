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
  EXPECT_GT(count.prefix_hits, 100);
  EXPECT_GT(count.snapshots_evicted, 100);
  EXPECT_GT(count.preemptions, 20);
}

TEST(StepAllocation, the_memory_plan_covers_what_a_full_house_takes) {
  HouseOptions options;
  options.engine.parallel = 3;
  options.engine.queue_max = 5;
  const EngineMemory plan = engine_memory(options.engine, options.shape);
  EXPECT_EQ(plan.prompt_bytes, 8 * 200 * 4);
  EXPECT_EQ(plan.running_bytes, 3 * (200 * 4 + 25 * 4));
  House house(options);
  const int64_t before = bytes_allocated();
  std::vector<RequestHandle> handles;
  for (uint64_t i = 0; i < 8; ++i) handles.push_back(house.submit(make_question(i, 100, 100)));
  house.settle(40);
  const int64_t taken = bytes_allocated() - before;
  // Half of each context is prompt and half is output; the questions and the fixed part of each
  // request come on top.
  const int64_t fixed = 8 * (2 * 100 * 4 + 2048);
  EXPECT_GT(taken, plan.stream_bytes);
  EXPECT_LT(taken, plan.stream_bytes + plan.running_bytes + plan.prompt_bytes + fixed);
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
  EXPECT_EQ(read(small).tokens[0], script_tokens(house, question));
}

}  // namespace
}  // namespace yeoul::simulation
