#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "engine/cache_report.h"
#include "engine/disk_stats.h"
#include "engine/event_stream.h"
#include "engine/executor.h"
#include "engine/request.h"

namespace yeoul {

struct EngineOptions {
  int32_t parallel = 16;          // running sequences
  int32_t queue_max = 256;        // waiting sequences beyond those; more is kResourceExhausted
  int32_t step_tokens_max = 512;  // rows of one step
  // Between two tokens of a running stream, for the sizes of prompt chunks; 0: no target.
  Duration itl_target = std::chrono::milliseconds(100);
  int32_t num_pages = 0;             // KV pages, from the memory plan
  int64_t context_max = 0;           // positions per sequence; 0: what the model allows
  int32_t num_snapshots = 0;         // states kept for later prompts; 0: no prefix is reused
  int64_t snapshot_interval = 4096;  // tokens between states kept inside a prompt; 0: none
  FetchRule fetch = FetchRule::kWhenFaster;  // of what is on disk, where there is a disk tier
  size_t stream_tokens_max = 1024;           // unread tokens of one request before it is paused
  Duration slow_reader_max = std::chrono::seconds(60);  // paused longer: cancelled
};

// What the engine's own state can come to take, for the memory plan. The step's buffers are a few
// KiB and left out.
struct EngineMemory {
  int64_t stream_bytes = 0;   // unread events of all requests, running and waiting
  int64_t running_bytes = 0;  // output tokens and page tables of the running sequences
  int64_t prompt_bytes = 0;   // prompts of all requests, each as long as the context
};
EngineMemory engine_memory(const EngineOptions& options, const ModelShape& shape);

// Counters and gauges, read at any time from any thread.
struct EngineStats {
  int64_t running = 0;
  int64_t waiting = 0;
  int64_t pages_used = 0;
  int64_t pages_total = 0;
  int64_t prompt_tokens = 0;  // processed for the first time, since start
  int64_t output_tokens = 0;
  int64_t requests_admitted = 0;                // accepted by submit
  int64_t requests_finished[4] = {0, 0, 0, 0};  // by FinishReason of the request
  int64_t requests_refused = 0;
  int64_t steps = 0;
  double step_seconds = 0;
  int64_t preemptions = 0;        // running sequences that gave their pages back and waited again
  int64_t recomputed_tokens = 0;  // computed again after it
  int64_t bound_breaches = 0;     // of the stated bounds on waiting; 0 unless there is a bug
  WeightTraffic weights;
  int64_t snapshots_used = 0;
  int64_t snapshots_total = 0;
  int64_t snapshots_kept = 0;  // since start, as all that follow
  int64_t snapshots_evicted = 0;
  int64_t prefix_lookups = 0;  // starts of sequences, those after a preemption included
  int64_t prefix_hits = 0;     // of which some resumed from a state
  int64_t followers = 0;       // times that a sequence waited for what another one computed
  int64_t cached_tokens = 0;   // prompt tokens that were not computed
  bool has_disk = false;
  DiskTierStats disk;
};

// Exclusive hold of one request; destroying it cancels what is still running. Movable.
class RequestHandle {
 public:
  RequestHandle() = default;
  explicit RequestHandle(uint64_t id, std::shared_ptr<EventStream> stream);
  RequestHandle(RequestHandle&&) noexcept = default;
  RequestHandle& operator=(RequestHandle&& other) noexcept;
  ~RequestHandle();

  uint64_t id() const { return id_; }
  EventStream& events() { return *stream_; }

 private:
  uint64_t id_ = 0;
  std::shared_ptr<EventStream> stream_;
};

enum class StepOutcome : uint8_t { kProgressed, kIdle, kFailed };

// The step loop: drain inbox, plan, run, commit, publish. All state belongs to the engine thread;
// submit() and stats() may be called from any thread.
class Engine {
 public:
  // store: open for units of DiskTier::unit_bytes_max(), or null: nothing is kept on disk.
  // kInvalidArgument when an option cannot be honoured, with the value that would work.
  static Result<std::unique_ptr<Engine>> create(EngineOptions options,
                                                std::unique_ptr<Executor> executor,
                                                const Clock& clock,
                                                std::unique_ptr<BlobStore> store = nullptr);
  virtual ~Engine() = default;

  // Validates and enqueues. kInvalidArgument: empty prompt, token out of range, bad sampling value,
  // prompt and max_tokens over the context (message holds both numbers); kResourceExhausted: queue
  // full; kUnavailable: draining. Never blocks.
  virtual Result<RequestHandle> submit(GenerateRequest request) = 0;

  // One turn of the loop. Engine thread only.
  virtual StepOutcome step() = 0;

  // Steps until `stop` is requested, sleeping while idle. What still runs then is cancelled.
  virtual void run(std::stop_token stop) = 0;

  // From now on submit() refuses; running requests go on. True from idle() once all have ended.
  virtual void drain() = 0;
  virtual bool idle() const = 0;

  virtual EngineStats stats() const = 0;
  // Taken by the engine thread between two steps, so it takes up to a step to come; of the tree at
  // most `nodes_max` nodes. nullopt when no engine thread runs.
  virtual std::optional<CacheReport> cache_report(size_t nodes_max) const = 0;
  virtual const EngineOptions& options() const = 0;
  virtual ModelShape shape() const = 0;
  virtual bool healthy() const = 0;  // false once the executor was lost
};

}  // namespace yeoul
