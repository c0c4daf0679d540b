#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <vector>

namespace yeoul {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Seconds. A CPU may take minutes over a prompt, so the buckets reach that far.
const prometheus::Histogram::BucketBoundaries kSecondsLong = {
    0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200, 3600};
const prometheus::Histogram::BucketBoundaries kSecondsShort = {
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
const prometheus::Histogram::BucketBoundaries kTokens = {1,    16,    64,    256,    1024,
                                                         4096, 16384, 65536, 262144, 1048576};

ClientMetric sample(MetricType type, double value, std::vector<ClientMetric::Label> labels) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return metric;
}

double number(int64_t value) {
  return static_cast<double>(value);
}

MetricFamily family(const char* name, const char* help, MetricType type, double value) {
  return {name, help, type, {sample(type, value, {})}};
}

// What weights outside of memory cost.
std::vector<MetricFamily> weight_families(const WeightTraffic& weights) {
  return {
      family("yeoul_expert_hits_total", "Experts wanted and in memory.", MetricType::Counter,
             number(weights.expert_hits)),
      family("yeoul_expert_misses_total", "Experts wanted and read.", MetricType::Counter,
             number(weights.expert_misses)),
      family("yeoul_expert_read_bytes_total", "Bytes of experts read.", MetricType::Counter,
             number(weights.expert_bytes_read)),
      family("yeoul_expert_wait_seconds_total", "Time without work while experts were read.",
             MetricType::Counter, weights.expert_wait_s),
      family("yeoul_engram_rows_total", "Engram rows wanted.", MetricType::Counter,
             number(weights.engram_rows)),
      family("yeoul_engram_rows_kept_total", "Engram rows wanted and in memory.",
             MetricType::Counter, number(weights.engram_rows_kept)),
      family("yeoul_engram_reads_total", "Reads of Engram tables.", MetricType::Counter,
             number(weights.engram_reads)),
      family("yeoul_engram_wait_seconds_total", "Time a layer waited for Engram rows.",
             MetricType::Counter, weights.engram_wait_s),
  };
}

// What the engine counts itself.
std::vector<MetricFamily> engine_families(const Engine& engine, const EngineStats& stats) {
  std::vector<MetricFamily> out = {
      family("yeoul_running", "Sequences that run.", MetricType::Gauge, number(stats.running)),
      family("yeoul_waiting", "Sequences that wait for a slot.", MetricType::Gauge,
             number(stats.waiting)),
      family("yeoul_pages_used", "KV pages in use.", MetricType::Gauge, number(stats.pages_used)),
      family("yeoul_pages_total", "KV pages there are.", MetricType::Gauge,
             number(stats.pages_total)),
      family("yeoul_snapshots_used", "States kept for later prompts.", MetricType::Gauge,
             number(stats.snapshots_used)),
      family("yeoul_snapshots_total", "States there is room for.", MetricType::Gauge,
             number(stats.snapshots_total)),
      family("yeoul_snapshots_kept_total", "States kept.", MetricType::Counter,
             number(stats.snapshots_kept)),
      family("yeoul_snapshots_evicted_total", "States that gave way to others or to pages.",
             MetricType::Counter, number(stats.snapshots_evicted)),
      family("yeoul_prefix_lookups_total", "Sequences that looked for a known prefix.",
             MetricType::Counter, number(stats.prefix_lookups)),
      family("yeoul_prefix_hits_total", "Sequences that went on from a known prefix.",
             MetricType::Counter, number(stats.prefix_hits)),
      family("yeoul_prefix_followers_total",
             "Times that a sequence waited for a prefix that another one computed.",
             MetricType::Counter, number(stats.followers)),
      family("yeoul_cached_tokens_total", "Prompt tokens that were not computed.",
             MetricType::Counter, number(stats.cached_tokens)),
      family("yeoul_healthy", "1 while the engine can serve.", MetricType::Gauge,
             engine.healthy() ? 1 : 0),
      family("yeoul_prompt_tokens_total", "Prompt tokens processed.", MetricType::Counter,
             number(stats.prompt_tokens)),
      family("yeoul_output_tokens_total", "Tokens generated.", MetricType::Counter,
             number(stats.output_tokens)),
      family("yeoul_engine_admitted_total", "Requests the engine accepted.", MetricType::Counter,
             number(stats.requests_admitted)),
      family("yeoul_engine_refused_total", "Requests the engine refused.", MetricType::Counter,
             number(stats.requests_refused)),
      family("yeoul_steps_total", "Steps of the engine.", MetricType::Counter, number(stats.steps)),
      family("yeoul_step_seconds_total", "Time spent in steps.", MetricType::Counter,
             stats.step_seconds),
      family("yeoul_preemptions_total",
             "Running sequences that gave their pages back and waited again.", MetricType::Counter,
             number(stats.preemptions)),
      family("yeoul_wait_bound_breaches_total", "Breaches of the stated bounds on waiting.",
             MetricType::Counter, number(stats.bound_breaches)),
      family("yeoul_recomputed_tokens_total", "Tokens computed again after a preemption.",
             MetricType::Counter, number(stats.recomputed_tokens)),
  };
  MetricFamily finished{
      "yeoul_engine_finished_total", "Requests that ended, by reason.", MetricType::Counter, {}};
  for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength,
                                    FinishReason::kCancelled, FinishReason::kError}) {
    finished.metric.push_back(sample(MetricType::Counter,
                                     number(stats.requests_finished[static_cast<size_t>(reason)]),
                                     {{"reason", to_string(reason)}}));
  }
  out.push_back(std::move(finished));
  for (MetricFamily& weights : weight_families(stats.weights)) out.push_back(std::move(weights));
  out.push_back(family("yeoul_disk_tier", "1 while prefixes are kept on disk.", MetricType::Gauge,
                       stats.has_disk ? 1 : 0));
  return out;
}

// The disk tier, where there is one.
std::vector<MetricFamily> disk_families(const DiskTierStats& disk) {
  const auto count = [](const char* name, const char* help, int64_t value) {
    return family(name, help, MetricType::Counter, static_cast<double>(value));
  };
  const auto gauge = [](const char* name, const char* help, int64_t value) {
    return family(name, help, MetricType::Gauge, static_cast<double>(value));
  };
  const BlobStoreStats& store = disk.store;
  MetricFamily dropped{"yeoul_store_dropped_units_total",
                       "Units that were not written, by reason.",
                       MetricType::Counter,
                       {}};
  for (const auto& [reason, value] : {std::pair("queue_full", store.units_dropped_full),
                                      std::pair("failure", store.units_dropped_error),
                                      std::pair("no_space", store.units_dropped_space)})
    dropped.metric.push_back(
        sample(MetricType::Counter, static_cast<double>(value), {{"reason", reason}}));
  return {
      gauge("yeoul_store_units", "Units on disk.", store.units),
      gauge("yeoul_store_unit_bytes", "Bytes of the units on disk.", store.unit_bytes),
      gauge("yeoul_store_folder_bytes", "Bytes of the folder when last measured.",
            store.disk_bytes),
      count("yeoul_store_written_units_total", "Units written.", store.units_written),
      count("yeoul_store_written_bytes_total", "Bytes of units written.", store.bytes_written),
      count("yeoul_store_durable_units_total", "Units that no power cut takes back.",
            store.units_durable),
      std::move(dropped),
      count("yeoul_store_evicted_units_total", "Units evicted within the budget.",
            store.units_evicted),
      count("yeoul_store_read_units_total", "Units read.", store.units_read),
      count("yeoul_store_read_bytes_total", "Bytes of units read.", store.bytes_read),
      family("yeoul_store_read_seconds_total", "Time spent reading units.", MetricType::Counter,
             store.read_s),
      count("yeoul_store_corrupt_units_total", "Units whose checksum did not fit.",
            store.units_corrupt),
      count("yeoul_store_lost_units_total", "Units gone after a failed write.", store.units_lost),
      count("yeoul_store_read_errors_total", "Reads that failed.", store.read_errors),
      count("yeoul_store_write_errors_total", "Writes that failed.", store.write_errors),
      count("yeoul_store_collections_total", "Collections of garbage.", store.collections),
      count("yeoul_disk_states_written_total", "States handed to the store.", disk.states_written),
      count("yeoul_disk_states_not_written_total", "States gone before their turn came.",
            disk.states_not_written),
      count("yeoul_disk_restores_total", "States that came back.", disk.restores),
      count("yeoul_disk_restored_tokens_total", "Tokens of states that came back.",
            disk.restored_tokens),
      count("yeoul_disk_restores_failed_total", "States that a bad unit kept away.",
            disk.restores_failed),
      count("yeoul_disk_restores_dropped_total", "States that had no room.", disk.restores_dropped),
      count("yeoul_disk_fetches_declined_total", "States that are computed faster than read.",
            disk.fetches_declined),
      family("yeoul_disk_restore_seconds_total", "Time until states were back.",
             MetricType::Counter, disk.restore_s),
  };
}

}  // namespace

struct Metrics::Families {
  explicit Families(const Engine& engine_in) : engine(engine_in) {}

  prometheus::Histogram& histogram(const char* name, const char* help,
                                   const prometheus::Histogram::BucketBoundaries& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
  }

  const Engine& engine;
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& replies = prometheus::BuildCounter()
                                                         .Name("yeoul_http_replies_total")
                                                         .Help("HTTP replies by route and status.")
                                                         .Register(registry);
  prometheus::Family<prometheus::Counter>& outcomes = prometheus::BuildCounter()
                                                          .Name("yeoul_requests_total")
                                                          .Help("Generation requests by outcome.")
                                                          .Register(registry);
  prometheus::Histogram& first_token =
      histogram("yeoul_time_to_first_token_seconds", "Request read to first token.", kSecondsLong);
  prometheus::Histogram& gap =
      histogram("yeoul_inter_token_seconds", "Between two tokens of one choice.", kSecondsShort);
  prometheus::Histogram& whole =
      histogram("yeoul_request_seconds", "Request read to end of the answer.", kSecondsLong);
  prometheus::Histogram& queue =
      histogram("yeoul_queue_seconds", "Waiting for a slot.", kSecondsLong);
  prometheus::Histogram& prompt = histogram("yeoul_prompt_tokens", "Prompt length.", kTokens);
};

Metrics::Metrics(const Engine& engine) : families_(std::make_unique<Families>(engine)) {}
Metrics::~Metrics() = default;

void Metrics::count_reply(std::string_view route, int status) {
  families_->replies.Add({{"route", std::string(route)}, {"status", std::to_string(status)}})
      .Increment();
}

void Metrics::count_outcome(std::string_view outcome) {
  families_->outcomes.Add({{"outcome", std::string(outcome)}}).Increment();
}

void Metrics::observe_first_token(double seconds) {
  families_->first_token.Observe(seconds);
}
void Metrics::observe_gap(double seconds) {
  families_->gap.Observe(seconds);
}
void Metrics::observe_whole(double seconds) {
  families_->whole.Observe(seconds);
}
void Metrics::observe_queue(double seconds) {
  families_->queue.Observe(seconds);
}
void Metrics::observe_prompt(double tokens) {
  families_->prompt.Observe(tokens);
}

std::string Metrics::render() const {
  std::vector<MetricFamily> families = families_->registry.Collect();
  const EngineStats stats = families_->engine.stats();
  for (MetricFamily& family : engine_families(families_->engine, stats))
    families.push_back(std::move(family));
  if (stats.has_disk)
    for (MetricFamily& family : disk_families(stats.disk)) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace yeoul
