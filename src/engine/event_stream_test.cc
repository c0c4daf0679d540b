#include "engine/event_stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace yeoul {
namespace {

TokenEvent token_event(TokenId token) {
  TokenEvent event;
  event.token = token;
  return event;
}

TEST(EventStream, events_come_in_order_and_the_ending_comes_last) {
  EventStream stream(2, 1);
  stream.push(token_event(5));
  stream.push(token_event(6));
  stream.push(ChoiceFinished{.choice = 0, .reason = FinishReason::kLength});
  RequestFinished ending;
  ending.output_tokens = 2;
  stream.push(ending);
  EXPECT_EQ(std::get<TokenEvent>(*stream.try_next()).token, 5);
  EXPECT_EQ(std::get<TokenEvent>(*stream.try_next()).token, 6);
  EXPECT_EQ(std::get<ChoiceFinished>(*stream.try_next()).reason, FinishReason::kLength);
  EXPECT_EQ(std::get<RequestFinished>(*stream.try_next()).output_tokens, 2);
  EXPECT_EQ(stream.try_next(), std::nullopt);
}

TEST(EventStream, a_full_stream_refuses_tokens_but_has_room_for_every_ending) {
  EventStream stream(1, 3);
  EXPECT_TRUE(stream.can_take_tokens(1));
  EXPECT_FALSE(stream.can_take_tokens(2));
  stream.push(token_event(1));
  EXPECT_FALSE(stream.can_take_tokens(1));
  for (int32_t choice = 0; choice < 3; ++choice)
    stream.push(ChoiceFinished{.choice = choice, .reason = FinishReason::kStop});
  stream.push(RequestFinished{});
  int num_events = 0;
  while (stream.try_next()) ++num_events;
  EXPECT_EQ(num_events, 5);
}

TEST(EventStream, the_ring_wraps_without_losing_events) {
  EventStream stream(3, 1);
  for (TokenId token = 0; token < 100; token += 2) {
    stream.push(token_event(token));
    stream.push(token_event(token + 1));
    EXPECT_EQ(std::get<TokenEvent>(*stream.try_next()).token, token);
    EXPECT_EQ(std::get<TokenEvent>(*stream.try_next()).token, token + 1);
  }
  EXPECT_EQ(stream.unread_tokens(), 0u);
}

TEST(EventStream, an_unread_progress_is_replaced_by_a_newer_one) {
  EventStream stream(1, 1);
  for (int64_t done = 1; done <= 1000; ++done)
    stream.push(ProgressEvent{.prompt_tokens = 1000, .processed_tokens = done});
  EXPECT_EQ(std::get<ProgressEvent>(*stream.try_next()).processed_tokens, 1000);
  EXPECT_EQ(stream.try_next(), std::nullopt);
}

TEST(EventStream, nothing_follows_the_ending_not_even_progress) {
  EventStream stream(1, 1);
  stream.push(ProgressEvent{});
  stream.push(RequestFinished{});
  EXPECT_TRUE(std::holds_alternative<RequestFinished>(*stream.try_next()));
  EXPECT_EQ(stream.next(std::chrono::hours(1)), std::nullopt);  // does not wait: it has ended
  EXPECT_DEATH(stream.push(token_event(1)), "after the terminal event");
  EXPECT_DEATH(stream.push(ProgressEvent{}), "after the terminal event");
}

TEST(EventStream, the_engine_is_woken_by_room_it_has_asked_for_and_by_an_absent_reader) {
  int num_wakes = 0;
  EventStream stream(2, 1, [&] { ++num_wakes; });
  stream.push(token_event(1));
  stream.push(token_event(2));
  ASSERT_TRUE(stream.try_next());
  EXPECT_EQ(num_wakes, 0);  // nobody waits for room
  stream.push(token_event(3));
  EXPECT_FALSE(stream.can_take_tokens(1));
  ASSERT_TRUE(stream.try_next());
  EXPECT_EQ(num_wakes, 1);
  ASSERT_TRUE(stream.try_next());
  EXPECT_EQ(num_wakes, 1);
  EXPECT_FALSE(stream.abandoned());
  stream.abandon();
  EXPECT_TRUE(stream.abandoned());
  EXPECT_EQ(num_wakes, 2);
}

TEST(EventStream, the_notifier_hears_of_each_event_until_the_reader_leaves) {
  int num_notified = 0;
  EventStream stream(4, 1);
  stream.set_notifier([&] { ++num_notified; });
  stream.push(ProgressEvent{});
  stream.push(token_event(1));
  stream.push(ChoiceFinished{});
  EXPECT_EQ(num_notified, 3);
  stream.abandon();
  stream.push(RequestFinished{});
  EXPECT_EQ(num_notified, 3);
}

TEST(EventStream, next_waits_for_a_push_from_another_thread) {
  EventStream stream(1, 1);
  std::thread engine([&] { stream.push(token_event(9)); });
  const std::optional<RequestEvent> event = stream.next(std::chrono::seconds(30));
  engine.join();
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<TokenEvent>(*event).token, 9);
  EXPECT_EQ(stream.next(std::chrono::milliseconds(1)), std::nullopt);
}

TEST(EventStream, a_slow_reader_and_a_fast_engine_lose_nothing) {
  constexpr TokenId kNumTokens = 20'000;
  EventStream stream(7, 1);
  std::thread engine([&] {
    for (TokenId token = 0; token < kNumTokens; ++token) {
      while (!stream.can_take_tokens(1)) std::this_thread::yield();
      stream.push(token_event(token));
    }
    stream.push(RequestFinished{});
  });
  TokenId next = 0;
  for (;;) {
    const std::optional<RequestEvent> event = stream.next(std::chrono::seconds(30));
    ASSERT_TRUE(event);
    if (std::holds_alternative<RequestFinished>(*event)) break;
    ASSERT_EQ(std::get<TokenEvent>(*event).token, next++);
  }
  engine.join();
  EXPECT_EQ(next, kNumTokens);
}

}  // namespace
}  // namespace yeoul
