#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "engine/request.h"

namespace yeoul {

// How far a waiting or prefilling request is. Replaces an unread older one; never fills the stream.
struct ProgressEvent {
  int64_t prompt_tokens = 0;
  int64_t processed_tokens = 0;
  int32_t queue_position = 0;  // 0: running
};

using RequestEvent = std::variant<ProgressEvent, TokenEvent, ChoiceFinished, RequestFinished>;

// Events of one request, from the engine thread to one reader. Bounded: when no token slot is free
// the engine pauses the sequence (it never waits for a reader). Room for the terminal events is
// reserved, so they always fit. Internally synchronized; all storage is allocated at construction.
class EventStream {
 public:
  EventStream(size_t token_capacity, int num_choices);

  // Engine side. can_take_token(n) is asked before a step plans n more tokens.
  bool can_take_tokens(size_t num_tokens) const;
  void push(const TokenEvent& event);
  void push(const ChoiceFinished& event);
  void push(RequestFinished event);
  void push(const ProgressEvent& event);

  // Reader side. try_next: nothing yet, or already ended -> nullopt. next: waits up to `timeout`.
  std::optional<RequestEvent> try_next();
  std::optional<RequestEvent> next(std::chrono::milliseconds timeout);

  // Called by the engine thread (outside any lock) after a push; set before the first read.
  // Must be quick and must not call back into the stream.
  void set_notifier(std::function<void()> notifier);

  // Reader gone: the engine cancels the request at its next step.
  void abandon();
  bool abandoned() const;

 private:
  struct Ring;
  mutable std::mutex mutex_;
  std::condition_variable available_;
  std::vector<RequestEvent> ring_;
  size_t head_ = 0;
  size_t size_ = 0;
  size_t tokens_ = 0;
  size_t token_capacity_;
  std::optional<ProgressEvent> progress_;
  std::function<void()> notifier_;
  bool abandoned_ = false;
};

}  // namespace yeoul
