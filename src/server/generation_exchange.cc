#include "server/generation_exchange.h"

#include <fmt/format.h>

#include "api/sse.h"

namespace yeoul {
namespace {

double seconds_between(TimePoint begin, TimePoint end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

GenerationExchange::GenerationExchange(std::vector<RequestHandle> handles,
                                       std::unique_ptr<AnswerWriter> writer, Metrics& metrics,
                                       Setup setup)
    : handles_(std::move(handles)),
      writer_(std::move(writer)),
      metrics_(metrics),
      setup_(std::move(setup)),
      last_output_(setup_.received),
      last_token_(static_cast<size_t>(writer_->tracker().num_choices())) {}

GenerationExchange::~GenerationExchange() {
  if (is_finished_) return;
  metrics_.count_outcome("disconnected");
  metrics_.count_reply(setup_.route, http_status({ErrorCode::kCancelled, ""}));
}

void GenerationExchange::set_notifier(std::function<void()> notifier) {
  for (RequestHandle& handle : handles_) handle.events().set_notifier(notifier);
}

bool GenerationExchange::poll(TimePoint now, std::string& out) {
  const size_t size_before = out.size();
  for (size_t i = 0; i < handles_.size(); ++i) {
    while (auto event = handles_[i].events().try_next()) {
      take(static_cast<int>(i), *event, now, out);
    }
  }
  const bool ended = writer_->ended();
  if (ended && !is_finished_) finish(now);
  if (ended && !writer_->is_stream()) {
    out = writer_->error() ? format_error(*writer_->error()) : writer_->body();
  }
  if (out.size() > size_before) last_output_ = now;
  if (!ended && writer_->is_stream()) append_progress(now, out);
  return ended;
}

void GenerationExchange::take(int request_index, const RequestEvent& event, TimePoint now,
                              std::string& out) {
  if (const auto* progress = std::get_if<ProgressEvent>(&event)) progress_ = *progress;
  if (const auto* token = std::get_if<TokenEvent>(&event)) {
    const int choices_per_request =
        writer_->tracker().num_choices() / static_cast<int>(handles_.size());
    observe_token(request_index * choices_per_request + token->choice, now);
  }
  if (const auto* finished = std::get_if<RequestFinished>(&event)) {
    metrics_.observe_queue(finished->timings.queue_s);
  }
  writer_->push(request_index, event, out);
}

void GenerationExchange::observe_token(int choice, TimePoint now) {
  TimePoint& last = last_token_[static_cast<size_t>(choice)];
  if (!has_token_) metrics_.observe_first_token(seconds_between(setup_.received, now));
  if (last != TimePoint{}) metrics_.observe_gap(seconds_between(last, now));
  has_token_ = true;
  last = now;
}

// A line about how far the request is, when nothing else was sent for a while: clients and proxies
// give up on a silent connection.
void GenerationExchange::append_progress(TimePoint now, std::string& out) {
  if (now - last_output_ < setup_.progress_interval) return;
  last_output_ = now;
  if (has_token_) {
    append_sse_comment("yeoul decoding", out);
  } else if (progress_.queue_position > 0) {
    append_sse_comment(fmt::format("yeoul waiting, position {}", progress_.queue_position), out);
  } else {
    append_sse_comment(
        fmt::format("yeoul prefill {}/{}", progress_.processed_tokens, progress_.prompt_tokens),
        out);
  }
}

void GenerationExchange::finish(TimePoint now) {
  is_finished_ = true;
  metrics_.observe_whole(seconds_between(setup_.received, now));
  metrics_.count_reply(setup_.route, head().status);
  metrics_.count_outcome(writer_->error() ? "error" : writer_->tracker().finish_reason(0));
}

HttpReply GenerationExchange::head() const {
  HttpReply reply;
  reply.headers = setup_.headers;
  if (writer_->is_stream()) {
    reply.content_type = "text/event-stream";
    reply.headers.emplace_back("Cache-Control", "no-cache");
    reply.headers.emplace_back("X-Accel-Buffering", "no");
  } else if (writer_->error()) {
    reply.status = http_status(*writer_->error());
  }
  return reply;
}

}  // namespace yeoul
