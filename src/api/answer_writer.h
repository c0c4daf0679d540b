#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/answer_tracker.h"

namespace yeoul {

// What both endpoints need to write an answer. Plain data.
struct AnswerSetup {
  ResponseHeader header;
  AnswerRules rules;
  int num_requests = 1;
  int choices_per_request = 1;
  int64_t prompt_tokens = 0;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool with_logprobs = false;
  int64_t seed = 0;                         // reported in the yeoul block
  std::vector<std::string> ignored_fields;  // likewise
};

// Turns the engine events of one API call into what its client reads: frames as they come when
// streaming, one body at the end otherwise. One implementation per endpoint. Thread-confined.
class AnswerWriter {
 public:
  explicit AnswerWriter(AnswerSetup setup);
  virtual ~AnswerWriter() = default;
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  // Streaming: appends frames to `out`, the closing ones included. After a failure the last frame
  // is the error and [DONE] does not follow. Not streaming: appends nothing.
  void push(int request_index, const RequestEvent& event, std::string& out);

  bool ended() const { return tracker_.ended(); }
  const std::optional<ApiError>& error() const { return tracker_.error(); }
  const AnswerTracker& tracker() const { return tracker_; }
  bool is_stream() const { return setup_.stream; }

  // The whole answer. Not streaming, after ended() without error.
  virtual std::string body() const = 0;

 protected:
  // Takes in an update; when streaming, also appends its chunks.
  virtual void write(const ChoiceUpdate& update, std::string& out) = 0;
  virtual const char* chunk_object() const = 0;

  // id, object, created, model, system_fingerprint.
  Json envelope(const char* object) const;
  // Adds usage, and the yeoul block to the first chunk, and appends the frame.
  void append_chunk(Json chunk, std::string& out);
  Json first_yeoul_block() const;
  Json timings_block() const;
  Json prefix_block() const;

  AnswerSetup setup_;
  AnswerTracker tracker_;

 private:
  void append_closing(std::string& out);
  bool wrote_chunk_ = false;
};

}  // namespace yeoul
