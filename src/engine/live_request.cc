#include "engine/live_request.h"

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
