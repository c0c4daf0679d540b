#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "engine/event_stream.h"
#include "engine/request.h"
#include "scheduler/sequence.h"

namespace yeoul {

// A submitted request until its terminal event: what was asked (never changes) and how far it is.
// Built by the submitting thread, then owned by and confined to the engine thread.
struct LiveRequest {
  struct Choice {
    Sequence sequence;
    std::optional<FinishReason> finished;
  };

  uint64_t id = 0;
  GenerateRequest request;
  std::shared_ptr<EventStream> stream;
  TimePoint submitted_at;
  std::optional<TimePoint> deadline_at;

  std::vector<Choice> choices;  // never resized: the scheduler keeps pointers to the sequences
  int32_t num_unfinished = 0;
  int32_t planned_tokens = 0;  // output tokens that the step being planned may add to the stream
  int64_t output_tokens = 0;
  PrefixReuse reuse;
  bool has_fetched = false;     // has had a state brought back from disk, or tried to
  int64_t restored_tokens = 0;  // of the state that was brought back from disk for it
  ProgressEvent last_progress;
  std::optional<TimePoint> prefill_began_at;
  std::optional<TimePoint> first_token_at;
  std::optional<TimePoint> last_token_at;
  std::optional<TimePoint> paused_since;  // the reader has been behind since then
  Result<void> status;                    // an error ends every choice

  bool is_failing() const { return !status.has_value(); }
};

RequestTimings timings(const LiveRequest& request);

// What was reused, with the estimate of the time that saved.
PrefixReuse reuse(const LiveRequest& request);

// The reason of the whole request: an error or a cancellation, else "length" if any choice was cut.
FinishReason finish_reason(const LiveRequest& request);

}  // namespace yeoul
