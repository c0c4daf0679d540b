#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/token.h"
#include "engine/token_constraint.h"
#include "sampling/sampling_params.h"

namespace yeoul {

// What a client asked, in tokens. Immutable once submitted.
struct GenerateRequest {
  std::vector<TokenId> prompt;  // not empty
  SamplingParams sampling;      // its seed included
  int num_choices = 1;          // choice i draws with (seed, i, position, token)
  int64_t max_tokens = 0;       // output tokens per choice; 0: as many as the context allows
  std::vector<TokenId> stop_token_ids;  // end of sequence included, unless the client ignores it
  int priority = 0;                     // higher runs first; 0 is normal, negative is background
  Duration deadline{0};                 // from submission; 0: none
  // One per choice, or empty. Owned by the engine until the request's terminal event.
  std::vector<std::unique_ptr<TokenConstraint>> constraints;
  std::string trace_id;  // for logs
  // Where other prompts are likely to leave this one: positions inside the prompt, most likely
  // first. A hint; too many or useless ones are passed over.
  std::vector<int64_t> anchors;
  uint64_t cache_salt = 0;  // requests with another salt share no prefix with this one
};

enum class FinishReason : uint8_t {
  kStop,       // a stop token or the constraint's verdict
  kLength,     // max_tokens or the context is used up
  kCancelled,  // the handle was destroyed, the deadline passed, or the reader was too slow
  kError,      // see the error
};
const char* to_string(FinishReason reason);

struct TopLogprob {
  TokenId token = 0;
  float logprob = 0;
};

// One generated token of one choice; the stop token that ends a choice is one too (it counts as an
// output token, and whoever shows text leaves it out). Fixed size: publishing does not allocate.
struct TokenEvent {
  int32_t choice = 0;
  TokenId token = 0;
  float logprob = 0;  // natural log, of the distribution before temperature; 0 when not asked for
  int32_t num_top = 0;
  std::array<TopLogprob, kMaxTopLogprobs> top;
};

// One choice ended. Every choice of a request that is not failed as a whole gets exactly one; a
// cancelled request's unfinished choices get theirs with kCancelled. When a request fails, its
// unfinished choices get none: the error of RequestFinished is theirs.
struct ChoiceFinished {
  int32_t choice = 0;
  FinishReason reason = FinishReason::kStop;
};

struct RequestTimings {
  double queue_s = 0;    // submission to first prefill step
  double prefill_s = 0;  // first prefill step to first token
  double decode_s = 0;   // first token to last token
};

// What of the prompt of choice 0 was not computed, and why not more.
struct PrefixReuse {
  int64_t shared_tokens = 0;     // known at the front, without the last token of the prompt
  int64_t candidate_tokens = 0;  // longest saved state within them
  int64_t cached_tokens = 0;     // the state it went on from
  const char* tier = "none";     // where that state was: "ram", "disk", "none" without one
  // "" when nothing more could be had; "nothing_shared": not even the first token is known;
  // "no_snapshot": no state was saved where the shared part ends; "rows_missing": one was, but so
  // short a rest needs rows that it lacks; "no_room": the page to copy from had no place beside the
  // copy.
  const char* reason = "";
  double seconds_saved = 0;  // estimate: at the rate at which the rest of the prompt was computed
};

// The one terminal event of a request: nothing follows it.
struct RequestFinished {
  // An error ends all choices that had not finished. kCancelled: deadline, slow or absent reader;
  // kUnavailable: the engine was stopped; others: a fault of this request, or a lost device
  // (kInternal).
  Result<void> status;
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;  // over all choices
  RequestTimings timings;
  PrefixReuse reuse;
};

}  // namespace yeoul
