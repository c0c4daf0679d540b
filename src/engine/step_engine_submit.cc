// StepEngine, the side that any thread may call: creation, submission, figures.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engine/step_engine.h"
#include "scheduler/save_points.h"

namespace yeoul {

namespace {

Result<void> check_option(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return {};
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{}: {} to {} expected, {} found", name, min, max, value));
}

Result<void> check_options(const EngineOptions& options, const ModelShape& shape) {
  constexpr int32_t kMany = 1 << 20;
  TRY(check_option("parallel", options.parallel, 1, kMany));
  TRY(check_option("queue", options.queue_max, 0, kMany));
  // Every running sequence has its decode row in each step.
  TRY(check_option("tokens per step", options.step_tokens_max, options.parallel, kMany));
  TRY(check_option("inter-token target in ns", options.itl_target.count(), 0, INT64_MAX));
  TRY(check_option("KV pages", options.num_pages, 1, INT32_MAX));
  TRY(check_option("context", options.context_max, 0, shape.context_max));
  TRY(check_option("snapshots", options.num_snapshots, 0, 1 << 24));
  TRY(check_option("tokens between snapshots", options.snapshot_interval, 0, INT64_MAX));
  TRY(check_option("unread tokens per stream", static_cast<int64_t>(options.stream_tokens_max), 1,
                   kMany));
  return {};
}

EngineOptions resolve(EngineOptions options, const ModelShape& shape) {
  if (options.context_max == 0) options.context_max = shape.context_max;
  return options;
}

RequestLimits limits_of(const EngineOptions& options, const ModelShape& shape) {
  return {.vocab_size = shape.vocab_size,
          .context_max = options.context_max,
          .kv_positions = int64_t{options.num_pages} * shape.tokens_per_page,
          .sequences_max = options.parallel + options.queue_max};
}

SchedulerLimits scheduler_limits(const EngineOptions& options, const ModelShape& shape) {
  return {.parallel = options.parallel,
          .step_tokens_max = options.step_tokens_max,
          .num_pages = options.num_pages,
          .sequence_pages_max = static_cast<int32_t>(std::min<int64_t>(
              options.num_pages, pages_for(options.context_max, shape.tokens_per_page))),
          .tokens_per_page = shape.tokens_per_page,
          .num_layers = shape.num_layers,
          .sequences_max = options.parallel + options.queue_max};
}

}  // namespace

Result<std::unique_ptr<StepEngine>> StepEngine::create(EngineOptions options,
                                                       std::unique_ptr<Executor> executor,
                                                       const Clock& clock,
                                                       std::unique_ptr<BlobStore> store) {
  const ModelShape shape = executor->shape();
  TRY(check_options(options, shape));
  if (store && options.num_snapshots == 0)
    return fail(ErrorCode::kInvalidArgument,
                "a disk tier needs room for snapshots in memory: at least 1 expected, 0 found");
  if (store && executor->state_units().identity.empty())
    return fail(ErrorCode::kUnsupported, "this executor keeps nothing on disk");
  return std::unique_ptr<StepEngine>(
      new StepEngine(resolve(options, shape), std::move(executor), clock, std::move(store)));
}

StepEngine::StepEngine(const EngineOptions& options, std::unique_ptr<Executor> executor,
                       const Clock& clock, std::unique_ptr<BlobStore> store)
    : options_(options),
      shape_(executor->shape()),
      limits_(limits_of(options_, shape_)),
      clock_(clock),
      wakeup_(std::make_shared<Wakeup>()),
      inbox_(static_cast<size_t>(limits_.sequences_max)),
      pool_(options_.num_pages),
      index_(pool_, {.shape = shape_.resume,
                     .tokens_per_page = shape_.tokens_per_page,
                     .snapshots_max = options_.num_snapshots,
                     .length_max = options_.context_max}),
      scheduler_(scheduler_limits(options_, shape_)),
      executor_(std::move(executor)),
      slots_(static_cast<size_t>(options_.parallel)) {
  const auto parallel = static_cast<size_t>(options_.parallel);
  live_.reserve(static_cast<size_t>(limits_.sequences_max));
  reserve_plan(scheduler_.limits(), plan_);
  result_.items.reserve(parallel);
  verdicts_.reserve(parallel);
  accepted_.reserve(parallel);
  // A step can need a new page for each of its tokens at most.
  new_pages_.reserve(static_cast<size_t>(std::min(options_.step_tokens_max, options_.num_pages)));
  if (options_.num_snapshots > 0) {
    const int64_t points_max =
        save_points_max(options_.step_tokens_max, options_.snapshot_interval);
    saves_.reserve(parallel * static_cast<size_t>(points_max));
    save_points_.reserve(2 * static_cast<size_t>(points_max));
  }
  if (store)
    disk_ = std::make_unique<DiskTier>(
        DiskTier::House{.pool = pool_, .index = index_, .executor = *executor_}, std::move(store),
        [wakeup = wakeup_] { wakeup->notify(); });
  counters_.has_disk = disk_ != nullptr;
  counters_.pages_total = options_.num_pages;
  counters_.snapshots_total = options_.num_snapshots;
  stats_ = counters_;
}

Result<RequestHandle> StepEngine::submit(GenerateRequest request) {
  Result<RequestHandle> handle = try_submit(std::move(request));
  if (!handle) num_refused_.fetch_add(1);
  return handle;
}

Result<RequestHandle> StepEngine::try_submit(GenerateRequest request) {
  TRY(check_request(request, limits_));
  std::unique_ptr<LiveRequest> live = make_live(std::move(request));
  RequestHandle handle(live->id, live->stream);
  TRY(enqueue(std::move(live)));
  wakeup_->notify();
  return handle;
}

std::unique_ptr<LiveRequest> StepEngine::make_live(GenerateRequest request) {
  auto live = std::make_unique<LiveRequest>();
  const int32_t num_choices = request.num_choices;
  const int64_t tokens_max = output_max(request, limits_);
  live->id = next_id_.fetch_add(1);
  live->request = std::move(request);
  live->submitted_at = clock_.now();
  if (live->request.deadline > Duration::zero())
    live->deadline_at = live->submitted_at + live->request.deadline;
  const size_t capacity =
      std::min(options_.stream_tokens_max,
               static_cast<size_t>(tokens_max) * static_cast<size_t>(num_choices));
  live->stream = std::make_shared<EventStream>(capacity, num_choices,
                                               [wakeup = wakeup_] { wakeup->notify(); });
  live->num_unfinished = num_choices;
  live->choices.reserve(static_cast<size_t>(num_choices));
  for (int32_t choice = 0; choice < num_choices; ++choice) {
    const SequenceSpec spec = {.request_id = live->id,
                               .choice = choice,
                               .arrival = next_arrival_.fetch_add(1),
                               .priority = live->request.priority,
                               .prompt = live->request.prompt,
                               .output_max = tokens_max};
    live->choices.push_back({Sequence(spec, pool_), std::nullopt});
  }
  return live;
}

Result<void> StepEngine::enqueue(std::unique_ptr<LiveRequest> live) {
  const int32_t num_choices = live->request.num_choices;
  const std::lock_guard lock(submit_mutex_);
  if (!healthy())
    return fail(ErrorCode::kUnavailable, "the device was lost; the server must be restarted");
  if (draining_.load()) return fail(ErrorCode::kUnavailable, "the server is shutting down");
  const int32_t taken = num_sequences_.load();
  if (taken + num_choices > limits_.sequences_max)
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("{} sequences run or wait, {} more were asked for, {} are the limit",
                            taken, num_choices, limits_.sequences_max));
  num_sequences_.fetch_add(num_choices);
  num_requests_.fetch_add(1);
  num_admitted_.fetch_add(1);
  CHECK(inbox_.try_push(std::move(live)), "the inbox has a place for every sequence");
  return {};
}

void StepEngine::drain() {
  const std::lock_guard lock(submit_mutex_);
  draining_.store(true);
}

EngineStats StepEngine::stats() const {
  EngineStats result;
  {
    const std::lock_guard lock(stats_mutex_);
    result = stats_;
  }
  if (disk_) result.disk.store = disk_->store_stats();  // goes on while the engine is idle
  result.waiting += static_cast<int64_t>(inbox_.size());
  result.requests_admitted = num_admitted_.load();
  result.requests_refused = num_refused_.load();
  return result;
}

}  // namespace yeoul
