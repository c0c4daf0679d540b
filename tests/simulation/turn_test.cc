// Whose turn it is: short prompts beside long ones, streams beside prompts.

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

#include "house.h"

namespace yeoul::simulation {
namespace {

using namespace std::chrono_literals;

// Steps of 20 ms, 1 ms a stream, 0.15 ms a token of a prompt.
HouseOptions measured(Duration itl_target) {
  HouseOptions options;
  options.engine.step_tokens_max = 2048;
  options.engine.num_pages = 4000;
  options.engine.stream_tokens_max = 1024;
  options.engine.itl_target = itl_target;
  options.shape.context_max = 16'000;
  options.step_latency = 20ms;
  options.row_latency = 1ms;
  options.token_latency = 150us;
  return options;
}

Duration longest_step(House& house, int num_steps) {
  Duration longest{0};
  for (int i = 0; i < num_steps; ++i) {
    const TimePoint before = house.clock.now();
    house.engine->step();
    longest = std::max(longest, house.clock.now() - before);
  }
  return longest;
}

TEST(Turn, streams_keep_their_pace_while_a_prompt_is_read) {
  for (const Duration target : {Duration(50ms), Duration(100ms)}) {
    House house(measured(target));
    RequestHandle stream = house.submit(make_question(1, 10, 900));
    longest_step(house, 10);
    RequestHandle long_one = house.submit(make_question(2, 8'000, 1));
    const Duration longest = longest_step(house, 60);
    EXPECT_LE(longest, target);
    EXPECT_GE(longest, target * 8 / 10);  // and the prompt gets what is left
  }
}

TEST(Turn, without_a_target_or_streams_a_prompt_has_the_whole_step) {
  House without_target(measured(0ms));
  RequestHandle stream = without_target.submit(make_question(1, 10, 900));
  longest_step(without_target, 10);
  RequestHandle long_one = without_target.submit(make_question(2, 8'000, 1));
  EXPECT_GT(longest_step(without_target, 5), 300ms);
  House without_streams(measured(50ms));
  RequestHandle alone = without_streams.submit(make_question(2, 8'000, 1));
  EXPECT_GT(longest_step(without_streams, 3), 300ms);
}

TEST(Turn, where_the_target_cannot_be_met_the_prompt_gets_half_of_the_time) {
  House house(measured(5ms));
  RequestHandle stream = house.submit(make_question(1, 10, 900));
  longest_step(house, 10);
  RequestHandle long_one = house.submit(make_question(2, 8'000, 1));
  longest_step(house, 10);
  const Duration longest = longest_step(house, 20);
  EXPECT_NEAR(std::chrono::duration<double>(longest).count(), 0.042, 0.002);
}

TEST(Turn, a_short_prompt_does_not_wait_for_a_long_one) {
  House house(measured(100ms));
  RequestHandle stream = house.submit(make_question(1, 10, 900));
  longest_step(house, 10);
  RequestHandle long_one = house.submit(make_question(2, 8'000, 1));
  longest_step(house, 5);
  RequestHandle short_one = house.submit(make_question(3, 300, 1));
  longest_step(house, 2);
  EXPECT_TRUE(read(short_one).ending);
  EXPECT_FALSE(read(long_one).ending);
}

TEST(Turn, a_long_prompt_comes_to_its_end_among_short_ones_without_end) {
  HouseOptions options = measured(0ms);
  options.engine.step_tokens_max = 64;
  House house(options);
  RequestHandle long_one = house.submit(make_question(2, 1'000, 1));
  Answer answer;
  std::vector<RequestHandle> others;
  for (uint64_t i = 0; i < 400 && !answer.ending; ++i) {
    others.push_back(house.submit(make_question(100 + i, 60, 1)));
    house.engine->step();
    read_into(answer, long_one);
  }
  EXPECT_TRUE(answer.ending);
}

}  // namespace
}  // namespace yeoul::simulation
