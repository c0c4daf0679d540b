#include "engine/live_request.h"

#include <iterator>

namespace yeoul {

namespace {

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

RequestTimings timings(const LiveRequest& request) {
  RequestTimings result;
  if (!request.prefill_began_at) return result;
  result.queue_s = seconds(*request.prefill_began_at - request.submitted_at);
  if (!request.first_token_at) return result;
  result.prefill_s = seconds(*request.first_token_at - *request.prefill_began_at);
  result.decode_s = seconds(*request.last_token_at - *request.first_token_at);
  return result;
}

PrefixReuse reuse(const LiveRequest& request) {
  PrefixReuse result = request.reuse;
  const int64_t computed = std::ssize(request.request.prompt) - result.cached_tokens;
  result.seconds_saved = timings(request).prefill_s * static_cast<double>(result.cached_tokens) /
                         static_cast<double>(computed);
  return result;
}

FinishReason finish_reason(const LiveRequest& request) {
  bool was_cut = false;
  for (const LiveRequest::Choice& choice : request.choices) {
    if (choice.finished == FinishReason::kCancelled) return FinishReason::kCancelled;
    was_cut = was_cut || choice.finished == FinishReason::kLength;
  }
  if (request.is_failing()) return FinishReason::kError;
  return was_cut ? FinishReason::kLength : FinishReason::kStop;
}

}  // namespace yeoul
