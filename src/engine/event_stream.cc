#include "engine/event_stream.h"

#include <utility>

#include "base/check.h"

namespace yeoul {

namespace {

// A ring slot that holds nothing.
RequestEvent empty_slot() {
  return ProgressEvent{};
}

}  // namespace

EventStream::EventStream(size_t token_capacity, int num_choices, std::function<void()> wake_engine)
    : token_capacity_(token_capacity),
      wake_engine_(std::move(wake_engine)),
      // Every choice ends once, and the request once.
      ring_(token_capacity + static_cast<size_t>(num_choices) + 1, empty_slot()) {}

bool EventStream::can_take_tokens(size_t num_tokens) {
  const std::lock_guard lock(mutex_);
  const bool fits = tokens_ + num_tokens <= token_capacity_;
  engine_waits_ = engine_waits_ || !fits;
  return fits;
}

size_t EventStream::unread_tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

EventStream::Notifier EventStream::push_locked(RequestEvent&& event) {
  CHECK(!terminal_pushed_, "an event after the terminal event");
  CHECK(size_ < ring_.size(), "event stream of {} is full", ring_.size());
  ring_[(head_ + size_) % ring_.size()] = std::move(event);
  ++size_;
  available_.notify_one();
  return notifier_;
}

void EventStream::push(const TokenEvent& event) {
  Notifier notifier;
  {
    const std::lock_guard lock(mutex_);
    CHECK(tokens_ < token_capacity_, "more than {} unread tokens", token_capacity_);
    ++tokens_;
    notifier = push_locked(event);
  }
  if (notifier) (*notifier)();
}

void EventStream::push(const ChoiceFinished& event) {
  Notifier notifier;
  {
    const std::lock_guard lock(mutex_);
    notifier = push_locked(event);
  }
  if (notifier) (*notifier)();
}

void EventStream::push(RequestFinished event) {
  Notifier notifier;
  {
    const std::lock_guard lock(mutex_);
    notifier = push_locked(std::move(event));
    terminal_pushed_ = true;
    progress_.reset();
  }
  if (notifier) (*notifier)();
}

void EventStream::push(const ProgressEvent& event) {
  Notifier notifier;
  {
    const std::lock_guard lock(mutex_);
    CHECK(!terminal_pushed_, "progress after the terminal event");
    progress_ = event;
    available_.notify_one();
    notifier = notifier_;
  }
  if (notifier) (*notifier)();
}

std::optional<RequestEvent> EventStream::pop_locked(bool& wake) {
  if (progress_) return std::exchange(progress_, std::nullopt);
  if (size_ == 0) return std::nullopt;
  RequestEvent event = std::exchange(ring_[head_], empty_slot());
  head_ = (head_ + 1) % ring_.size();
  --size_;
  if (std::holds_alternative<TokenEvent>(event)) {
    --tokens_;
    wake = std::exchange(engine_waits_, false);
  }
  ended_ = std::holds_alternative<RequestFinished>(event);
  return event;
}

std::optional<RequestEvent> EventStream::try_next() {
  return next(std::chrono::milliseconds(0));
}

std::optional<RequestEvent> EventStream::next(std::chrono::milliseconds timeout) {
  bool wake = false;
  std::optional<RequestEvent> event;
  {
    std::unique_lock lock(mutex_);
    const auto is_ready = [this] { return size_ > 0 || progress_ || ended_; };
    if (timeout.count() > 0 && !is_ready()) available_.wait_for(lock, timeout, is_ready);
    event = pop_locked(wake);
  }
  if (wake && wake_engine_) wake_engine_();
  return event;
}

void EventStream::set_notifier(std::function<void()> notifier) {
  auto shared = std::make_shared<const std::function<void()>>(std::move(notifier));
  const std::lock_guard lock(mutex_);
  notifier_ = std::move(shared);
}

void EventStream::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_.store(true, std::memory_order_relaxed);
    notifier_.reset();
  }
  if (wake_engine_) wake_engine_();
}

}  // namespace yeoul
