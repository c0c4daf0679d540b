#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace yeoul {

// The numbers of GET /metrics, in Prometheus' text format (docs/api.md lists them). Internally
// synchronized.
class Metrics {
 public:
  // The engine is borrowed for the life of the object; its counters are read at every render.
  explicit Metrics(const Engine& engine);
  ~Metrics();

  void count_reply(std::string_view route, int status);
  // How a generation ended: "stop", "length", "tool_calls", "error", "disconnected", "refused".
  void count_outcome(std::string_view outcome);
  void observe_first_token(double seconds);  // from request read to first token
  void observe_gap(double seconds);          // between tokens of one choice
  void observe_whole(double seconds);        // from request read to end
  void observe_queue(double seconds);        // waiting in the engine's queue
  void observe_prompt(double tokens);

  std::string render() const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace yeoul
