// StepEngine, what readers see: events, and the one ending of each request.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/step_engine.h"

namespace yeoul {

namespace {

// An idle engine with states to write looks so often whether the store takes more.
constexpr std::chrono::milliseconds kWritePause{1};

}  // namespace

void StepEngine::publish_item(size_t index, TimePoint now) {
  const StepItem& item = plan_.items[index];
  const SlotOwner of = owner(item);
  LiveRequest& request = *of.request;
  const auto prompt_len = static_cast<int64_t>(request.request.prompt.size());
  const bool is_prefill = item.position < prompt_len;
  const Sequence& sequence = request.choices[static_cast<size_t>(of.choice)].sequence;
  const int64_t end = item.position + accepted_[index];
  const int64_t news = std::max(item.position, sequence.computed_before());
  counters_.recomputed_tokens += std::min(end, news) - item.position;
  counters_.prompt_tokens += std::max<int64_t>(0, std::min(end, prompt_len) - news);
  if (request.is_failing()) return;
  if (is_prefill && of.choice == 0)
    push_progress(request, {.prompt_tokens = prompt_len,
                            .processed_tokens = std::min(end, prompt_len),
                            .queue_position = 0});
  const Verdict& verdict = verdicts_[index];
  if (verdict.has_token) {
    const ItemResult& result = result_.items[index];
    request.stream->push(TokenEvent{.choice = of.choice,
                                    .token = result.token,
                                    .logprob = result.logprob,
                                    .num_top = result.num_top,
                                    .top = result.top});
    ++counters_.output_tokens;
    ++request.output_tokens;
    if (!request.first_token_at) request.first_token_at = now;
    request.last_token_at = now;
  }
  if (verdict.finish)
    request.stream->push(ChoiceFinished{.choice = of.choice, .reason = *verdict.finish});
}

void StepEngine::publish_queue_positions() {
  int32_t queue_position = 0;
  for (const Sequence* sequence : scheduler_.waiting()) {
    ++queue_position;
    if (sequence->spec().choice != 0) continue;
    push_progress(request_of(*sequence), {.prompt_tokens = sequence->prompt_len(),
                                          .processed_tokens = 0,
                                          .queue_position = queue_position});
  }
}

// What was read once stays read in the eyes of the reader, also when it is computed again.
void StepEngine::push_progress(LiveRequest& request, ProgressEvent progress) {
  progress.processed_tokens =
      std::max(progress.processed_tokens, request.last_progress.processed_tokens);
  if (request.last_progress == progress) return;
  request.last_progress = progress;
  request.stream->push(progress);
}

void StepEngine::end_choice(LiveRequest& request, int32_t choice) noexcept {
  Sequence& sequence = request.choices[static_cast<size_t>(choice)].sequence;
  if (sequence.phase() == Sequence::Phase::kEnded) return;
  // After its loss the executor is not called any more.
  if (sequence.phase() == Sequence::Phase::kRunning && healthy()) {
    keep_state(sequence, request.request.cache_salt);
    executor_->close_slot(sequence.slot());
  }
  scheduler_.remove(sequence);
  --request.num_unfinished;
}

void StepEngine::fail_request(LiveRequest& request, Error error) {
  request.status = tl::unexpected<Error>(std::move(error));
  for (const LiveRequest::Choice& choice : request.choices)
    end_choice(request, choice.sequence.spec().choice);
}

void StepEngine::cancel(LiveRequest& request, Error error) {
  for (LiveRequest::Choice& choice : request.choices) {
    if (choice.finished) continue;
    choice.finished = FinishReason::kCancelled;
    request.stream->push(ChoiceFinished{.choice = choice.sequence.spec().choice,
                                        .reason = FinishReason::kCancelled});
  }
  fail_request(request, std::move(error));
}

void StepEngine::finish_ended() {
  bool any = false;
  for (const std::unique_ptr<LiveRequest>& request : live_) {
    if (request->num_unfinished > 0) continue;
    finish(*request);
    any = true;
  }
  if (any)
    std::erase_if(live_, [](const std::unique_ptr<LiveRequest>& request) {
      return request->num_unfinished == 0;
    });
}

void StepEngine::finish(LiveRequest& request) {
  for (SlotOwner& of : slots_)
    if (of.request == &request) of = {};
  // Constraints may point into what the reader owns, and the reader may leave after this event.
  request.request.constraints.clear();
  ++counters_.requests_finished[static_cast<size_t>(finish_reason(request))];
  // A reader that sees the end finds the place free and the figures up to date.
  num_sequences_.fetch_sub(request.request.num_choices);
  refresh_gauges();
  request.stream->push(RequestFinished{.status = std::move(request.status),
                                       .prompt_tokens = std::ssize(request.request.prompt),
                                       .output_tokens = request.output_tokens,
                                       .timings = timings(request),
                                       .reuse = reuse(request)});
  num_requests_.fetch_sub(1);
}

StepOutcome StepEngine::lose_device(const Error& error) {
  {
    const std::lock_guard lock(submit_mutex_);
    healthy_.store(false);
  }
  drain_inbox();
  for (const std::unique_ptr<LiveRequest>& request : live_)
    fail_request(*request, {ErrorCode::kInternal, "the device was lost: " + error.message});
  finish_ended();
  return StepOutcome::kFailed;
}

void StepEngine::shut_down() {
  drain();
  drain_inbox();
  for (const std::unique_ptr<LiveRequest>& request : live_)
    cancel(*request, {ErrorCode::kUnavailable, "the server is shutting down"});
  finish_ended();
  finish_writing();
}

StepEngine::~StepEngine() {
  shut_down();
}

void StepEngine::refresh_gauges() {
  counters_.running = std::ssize(scheduler_.running());
  counters_.waiting = std::ssize(scheduler_.waiting());
  counters_.bound_breaches = scheduler_.bound_breaches();
  counters_.weights = executor_->weight_traffic();
  counters_.pages_used = pages_held(scheduler_.running());
  counters_.snapshots_used = index_.num_snapshots();
  counters_.snapshots_kept = index_.stats().kept;
  counters_.snapshots_evicted = index_.stats().evicted;
  if (disk_) counters_.disk = disk_->stats();
  const std::lock_guard lock(stats_mutex_);
  stats_ = counters_;
}

Duration StepEngine::time_to_next_limit() const {
  const TimePoint now = clock_.now();
  Duration rest = std::chrono::hours(1);
  for (const std::unique_ptr<LiveRequest>& request : live_) {
    if (request->deadline_at) rest = std::min(rest, *request->deadline_at - now);
    if (request->paused_since)
      rest = std::min(rest, *request->paused_since + options_.slow_reader_max - now);
  }
  if (disk_ && disk_->is_ready()) rest = Duration::zero();
  if (is_writing_) rest = std::min<Duration>(rest, kWritePause);
  return std::max(rest, Duration::zero());
}

LiveRequest& StepEngine::request_of(const Sequence& sequence) {
  const auto found = std::ranges::find_if(live_, [&](const std::unique_ptr<LiveRequest>& request) {
    return request->id == sequence.spec().request_id;
  });
  CHECK(found != live_.end(), "request {} is not live", sequence.spec().request_id);
  return **found;
}

EngineSnapshot StepEngine::snapshot() const {
  EngineSnapshot result = {.cache = yeoul::snapshot(pool_),
                           .scheduler = yeoul::snapshot(scheduler_),
                           .num_requests = static_cast<int32_t>(live_.size())};
  for (const Sequence* sequence : scheduler_.running()) {
    const std::span<const int32_t> pages = sequence->page_table().pages();
    result.cache.tables.emplace_back(pages.begin(), pages.end());
  }
  for (int32_t i = 0; i < options_.num_snapshots; ++i) {
    const std::span<const int32_t> pages = index_.pages(i).pages();
    if (index_.is_kept(i)) result.cache.tables.emplace_back(pages.begin(), pages.end());
  }
  if (disk_) {
    const std::span<const int32_t> pages = disk_->pages().pages();
    result.cache.tables.emplace_back(pages.begin(), pages.end());
  }
  return result;
}

}  // namespace yeoul
