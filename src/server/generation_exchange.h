#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer_writer.h"
#include "engine/engine.h"
#include "server/http.h"
#include "server/metrics.h"

namespace yeoul {

// One generation call on its way: reads the events of its engine requests and lets the writer turn
// them into what the client gets. Destroying it cancels what still runs. Thread-confined to its
// connection.
class GenerationExchange final : public Exchange {
 public:
  struct Setup {
    std::string_view route;  // for the metrics; a literal
    TimePoint received;
    Duration progress_interval;
    HttpHeaders headers;
  };
  // `handles[i]` is request i of the writer. The metrics are borrowed for the life of the object.
  GenerationExchange(std::vector<RequestHandle> handles, std::unique_ptr<AnswerWriter> writer,
                     Metrics& metrics, Setup setup);
  ~GenerationExchange() override;

  void set_notifier(std::function<void()> notifier) override;
  bool is_stream() const override { return writer_->is_stream(); }
  bool poll(TimePoint now, std::string& out) override;
  HttpReply head() const override;

 private:
  void take(int request_index, const RequestEvent& event, TimePoint now, std::string& out);
  void observe_token(int choice, TimePoint now);
  void append_progress(TimePoint now, std::string& out);
  void finish(TimePoint now);

  std::vector<RequestHandle> handles_;
  std::unique_ptr<AnswerWriter> writer_;
  Metrics& metrics_;
  const Setup setup_;
  TimePoint last_output_;
  std::vector<TimePoint> last_token_;  // per choice; the epoch: none yet
  bool has_token_ = false;
  bool is_finished_ = false;
  ProgressEvent progress_;
};

}  // namespace yeoul
