// Who gets in, who waits and who is refused.

#include "engine/step_engine.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "house.h"

namespace yeoul::simulation {
namespace {

TEST(EngineAdmission, a_higher_priority_that_arrives_later_runs_first) {
  HouseOptions options;
  options.engine.parallel = 1;
  House house(options);
  std::vector<RequestHandle> handles;
  for (const int priority : {-1, 0, 1}) {
    GenerateRequest request = to_request(make_question(200, 4, 2), house.constraints_alive);
    request.priority = priority;
    handles.push_back(std::move(*house.engine->submit(std::move(request))));
  }
  std::vector<size_t> order;
  std::vector<Answer> answers(3);
  for (int i = 0; i < 6; ++i) {
    house.engine->step();
    for (size_t j = 0; j < handles.size(); ++j) {
      const bool had_ended = answers[j].ending.has_value();
      read_into(answers[j], handles[j]);
      if (!had_ended && answers[j].ending) order.push_back(j);
    }
  }
  EXPECT_EQ(order, (std::vector<size_t>{2, 1, 0}));
}

TEST(EngineAdmission, progress_tells_the_place_in_the_queue_and_the_tokens_read) {
  HouseOptions options;
  options.engine.parallel = 1;
  options.engine.step_tokens_max = 4;
  House house(options);
  RequestHandle first = house.submit(make_question(5, 8, 1));
  RequestHandle second = house.submit(make_question(6, 8, 1));
  RequestHandle third = house.submit(make_question(7, 8, 2));
  Answer answer;
  for (int i = 0; i < 6; ++i) {
    house.engine->step();
    read_into(answer, third);
  }
  const std::vector<ProgressEvent> expected = {{8, 0, 2}, {8, 0, 1}, {8, 4, 0}, {8, 8, 0}};
  EXPECT_EQ(answer.progress, expected);
}

TEST(EngineAdmission, no_memory_at_admission_ends_that_request_only) {
  House house;
  const Question question = make_question(12, 5, 4);
  RequestHandle unlucky;
  RequestHandle lucky;
  {
    const ScopedFault fault(FaultPoint::kAdmissionMemory, [](uint64_t id) { return id == 1; });
    unlucky = house.submit(make_question(13, 5, 4));
    lucky = house.submit(question);
    house.settle();
  }
  const Answer failed = read(unlucky);
  ASSERT_TRUE(failed.ending && !failed.ending->status);
  EXPECT_EQ(failed.ending->status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(read(lucky).tokens[0], script_tokens(house, question));
}

TEST(EngineAdmission, a_full_house_refuses_and_has_room_again_when_one_has_ended) {
  HouseOptions options;
  options.engine.parallel = 1;
  options.engine.queue_max = 2;
  House house(options);
  std::vector<RequestHandle> handles;
  for (uint64_t i = 0; i < 3; ++i) handles.push_back(house.submit(make_question(70 + i, 4, 2)));
  int64_t alive = 0;
  const auto refused = house.engine->submit(to_request(make_question(73, 4, 2), alive));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(house.engine->stats().requests_refused, 1);
  EXPECT_EQ(house.engine->stats().waiting, 3);
  for (int i = 0; i < 2; ++i) house.engine->step();
  EXPECT_TRUE(read(handles[0]).ending);
  EXPECT_TRUE(house.engine->submit(to_request(make_question(74, 4, 2), alive)));
}

TEST(EngineAdmission, draining_refuses_new_requests_and_finishes_the_old_ones) {
  House house;
  const Question question = make_question(80, 4, 6);
  RequestHandle handle = house.submit(question);
  house.engine->drain();
  EXPECT_FALSE(house.engine->idle());
  int64_t alive = 0;
  const auto refused = house.engine->submit(to_request(question, alive));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  house.settle();
  EXPECT_TRUE(house.engine->idle());
  EXPECT_EQ(read(handle).tokens[0], script_tokens(house, question));
}

TEST(EngineAdmission, options_that_cannot_be_honoured_are_refused_with_what_would_work) {
  const auto error_with = [](auto&& change) {
    HouseOptions options;
    change(options.engine);
    VirtualClock clock;
    ExecutorLog log;
    auto executor = std::make_unique<ScriptedExecutor>(
        ScriptedExecutor::Options{.shape = options.shape}, nullptr, log);
    const auto engine = Engine::create(options.engine, std::move(executor), clock);
    EXPECT_FALSE(engine);
    return engine ? std::string() : engine.error().message;
  };
  EXPECT_EQ(error_with([](auto& o) { o.parallel = 0; }),
            "parallel: 1 to 1048576 expected, 0 found");
  EXPECT_EQ(error_with([](auto& o) { o.step_tokens_max = 15; }),
            "tokens per step: 16 to 1048576 expected, 15 found");
  EXPECT_EQ(error_with([](auto& o) { o.context_max = 201; }),
            "context: 0 to 200 expected, 201 found");
  EXPECT_EQ(error_with([](auto& o) { o.num_pages = 0; }),
            "KV pages: 1 to 2147483647 expected, 0 found");
  EXPECT_EQ(error_with([](auto& o) { o.queue_max = -1; }),
            "queue: 0 to 1048576 expected, -1 found");
  EXPECT_EQ(error_with([](auto& o) { o.stream_tokens_max = 0; }),
            "unread tokens per stream: 1 to 1048576 expected, 0 found");
}

}  // namespace
}  // namespace yeoul::simulation
