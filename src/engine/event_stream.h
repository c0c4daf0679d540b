#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "engine/request.h"

namespace yeoul {

// How far a waiting or prefilling request is (its choice 0). Replaces an unread older one; never
// fills the stream.
struct ProgressEvent {
  int64_t prompt_tokens = 0;
  int64_t processed_tokens = 0;
  int32_t queue_position = 0;  // 0: running
  friend bool operator==(const ProgressEvent&, const ProgressEvent&) = default;
};

using RequestEvent = std::variant<ProgressEvent, TokenEvent, ChoiceFinished, RequestFinished>;

// Events of one request, from the engine thread to one reader. Bounded: when no token slot is free
// the engine pauses the sequence (it never waits for a reader). Room for the terminal events is
// reserved, so they always fit. Internally synchronized; all storage is allocated at construction.
class EventStream {
 public:
  // `wake_engine` is called from the reader's thread, outside any lock, when it abandons the stream
  // and when it makes room that the engine has asked for in vain. May be empty.
  EventStream(size_t token_capacity, int num_choices, std::function<void()> wake_engine = {});

  // Engine side. can_take_tokens(n) is asked before a step plans n more tokens; after a no the
  // engine is woken by the next token that is read.
  bool can_take_tokens(size_t num_tokens);
  void push(const TokenEvent& event);
  void push(const ChoiceFinished& event);
  void push(RequestFinished event);  // the last push
  void push(const ProgressEvent& event);
  size_t unread_tokens() const;

  // Reader side. try_next: nothing yet, or already ended -> nullopt. next: waits up to `timeout`.
  std::optional<RequestEvent> try_next();
  std::optional<RequestEvent> next(std::chrono::milliseconds timeout);

  // Called by the engine thread (outside any lock) after a push; set before the first read.
  // Must be quick and must not call back into the stream. A call may still be under way when
  // abandon() returns; none begins after it.
  void set_notifier(std::function<void()> notifier);

  // Reader gone: the engine cancels the request at its next step.
  void abandon();
  bool abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  using Notifier = std::shared_ptr<const std::function<void()>>;

  // Under mutex_. push_locked returns whom to notify once the lock is gone.
  Notifier push_locked(RequestEvent&& event);
  std::optional<RequestEvent> pop_locked(bool& wake);

  const size_t token_capacity_;
  const std::function<void()> wake_engine_;
  mutable std::mutex mutex_;
  std::condition_variable available_;
  std::vector<RequestEvent> ring_;
  size_t head_ = 0;
  size_t size_ = 0;
  size_t tokens_ = 0;  // TokenEvents among them
  std::optional<ProgressEvent> progress_;
  bool engine_waits_ = false;  // can_take_tokens said no
  bool terminal_pushed_ = false;
  bool ended_ = false;  // the terminal event was read
  Notifier notifier_;
  std::atomic<bool> abandoned_{false};
};

}  // namespace yeoul
