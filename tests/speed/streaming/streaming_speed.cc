// Weights that are not in memory: which experts stay, how fast the others come, and what a step
// waits for Engram rows.
//   streaming_speed hit_rates [TRACE SLOTS]   JSON lines; or those of a recorded trace
//   streaming_speed CHECKPOINT NAME...        experts_streamed, engram_cold; a folder of
//                                             `yeoul make-checkpoint` (tools/on_slice.sh)
//   streaming_speed CHECKPOINT gate_forecast  what could be read ahead, as text

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/counter_rng.h"
#include "gate_forecast.h"
#include "io/anonymous_memory.h"
#include "measure/roofs.h"
#include "speed/claim_row.h"
#include "speed/token_map.h"
#include "support/model_harness.h"
#include "support/routing_traces.h"

namespace yeoul::speed {
namespace {

constexpr int kThreads = 2;
constexpr size_t kPrompt = 64;  // tokens before the decode steps that are timed

// Points of hit rate above LRU; 5 are asked where Belady is 10 above.
void print_rates(std::string_view name, const RoutingTrace& trace, int32_t slots) {
  const HitRates rates = play(trace, slots, static_cast<size_t>(trace.layers) * 200);
  const double points = 100 * (rates.forecast - rates.lru);
  const double best = 100 * (rates.belady - rates.lru);
  print_row(name, points,
            fmt::format("points of hit rate above LRU: {:.1f}% against {:.1f}%, Belady {:.1f}%; {} "
                        "slots for {} layers of {} experts",
                        100 * rates.forecast, 100 * rates.lru, 100 * rates.belady, slots,
                        trace.layers, trace.experts),
            ">= 5 where Belady is >= 10", points >= 5 || best < 10);
}

void hit_rates() {
  const TraceShape shape;
  for (const auto make : {zipf_trace, topics_trace, phases_trace}) {
    const RoutingTrace trace = make(shape, 1);
    print_rates("expert_hits_" + trace.name, trace, shape.layers * shape.experts / 4);
  }
}

ModelHarness::Options options_for(const std::string& checkpoint) {
  return {.checkpoint = checkpoint,
          .engram_map = write_token_map(checkpoint),
          .threads = kThreads,
          .rows_max = kPrompt,
          .context_max = 512};
}

// Tokens that do not repeat: every n-gram is new.
TokenId token_at(const ModelConfig& config, size_t index) {
  return static_cast<TokenId>(counter_bits(41, index) %
                              static_cast<uint64_t>(config.vocab_size - 300));
}

void read_prompt(ModelHarness& model) {
  std::vector<TokenId> prompt;
  for (size_t i = 0; i < kPrompt; ++i) prompt.push_back(token_at(model.config(), i));
  model.prefill_cone(0, prompt);
}

// What the device gives for large reads of the same files at the same depth, bytes a second: the
// best of `rounds` times 1 GiB of random ranges.
double disk_rate(const Checkpoint& checkpoint, int rounds) {
  constexpr uint64_t kRange = uint64_t{16} << 20;
  constexpr int kRanges = 64, kAtOnce = 4;
  auto memory = AnonymousMemory::reserve(kRange * kAtOnce);
  CHECK(memory.has_value());
  auto reader =
      RangeReader::open(checkpoint.shards(), {.memory = {memory->data(), memory->size()}});
  CHECK(reader.has_value(), "{}", reader.error().message);
  std::vector<int32_t> large;
  for (size_t s = 0; s < checkpoint.shards().size(); ++s) {
    if (checkpoint.shards()[s].size() > 4 * kRange) large.push_back(static_cast<int32_t>(s));
  }
  CHECK(!large.empty());
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = now_seconds();
    const auto start_one = [&](int index, uint64_t buffer) {
      const uint64_t bits = counter_bits(17, static_cast<uint64_t>(round * kRanges + index));
      const int32_t shard = large[bits % large.size()];
      const uint64_t places = checkpoint.shards()[static_cast<size_t>(shard)].size() / kRange;
      (*reader)->start({shard,
                        (bits >> 20) % places * kRange,
                        {memory->data() + buffer * kRange, kRange},
                        kRange,
                        buffer});
    };
    for (int i = 0; i < kAtOnce; ++i) start_one(i, static_cast<uint64_t>(i));
    for (int done = 0; done < kRanges; ++done) {
      const std::optional<RangeOutcome> outcome = (*reader)->next(true);
      CHECK(outcome && outcome->ok);
      if (done + kAtOnce < kRanges) start_one(done + kAtOnce, outcome->read.tag);
    }
    best = std::max(best, double{kRange} * kRanges / (now_seconds() - start));
  }
  return best;
}

// Decode steps with slots for a quarter of the experts.
void experts_streamed(const std::string& checkpoint) {
  ModelHarness::Options options = options_for(checkpoint);
  const auto opened = Checkpoint::open(checkpoint);
  CHECK(opened.has_value(), "{}", opened.error().message);
  const ModelConfig& config = (*opened)->config();
  const int32_t all = config.n_routed_experts * config.num_hidden_layers;
  options.experts.num_slots = all / 4;
  ModelHarness model(options);
  read_prompt(model);
  const ExpertStore& experts = model.weights().experts();
  double disk = 0;
  ExpertTraffic sum;
  for (size_t round = 0; round < 3; ++round) {
    disk = std::max(disk, disk_rate(model.weights().checkpoint(), 1));
    const ExpertTraffic before = experts.traffic();
    for (size_t i = 0; i < 12; ++i) {
      model.decode(0, token_at(config, kPrompt + 12 * round + i));
    }
    sum.bytes_read += experts.traffic().bytes_read - before.bytes_read;
    sum.read_s += experts.traffic().read_s - before.read_s;
    sum.hits += experts.traffic().hits - before.hits;
    sum.misses += experts.traffic().misses - before.misses;
  }
  const double rate = static_cast<double>(sum.bytes_read) / sum.read_s;
  print_row("experts_streamed", rate / disk,
            fmt::format("of the disk's throughput while experts are missing: {:.2f} of {:.2f} GB/s "
                        "through {}, {} slots for {} experts of {:.1f} MB, {:.0f}% of uses missing",
                        rate / 1e9, disk / 1e9, experts.reader().way(), all / 4, all,
                        static_cast<double>(experts.expert_bytes()) / 1e6,
                        100.0 * static_cast<double>(sum.misses) /
                            static_cast<double>(sum.hits + sum.misses)),
            ">= 0.9", rate / disk >= 0.9);
}

struct EngramCost {
  double reads_per_row = 0;
  double wait_share = 0;  // of the decode steps
  double reads_per_step = 0;
};

// Experts resident, so that a step is as short as it can be.
EngramCost engram_cost(const std::string& checkpoint, bool scales_resident) {
  ModelHarness::Options options = options_for(checkpoint);
  options.engram.scales_resident = scales_resident;
  ModelHarness model(options);
  read_prompt(model);
  const EngramRows& engram = model.weights().engram_rows();
  constexpr size_t kSteps = 32;
  for (size_t i = 0; i < 16; ++i) model.decode(0, token_at(model.config(), 100 + i));
  const EngramTraffic before = engram.traffic();
  const double start = now_seconds();
  for (size_t i = 0; i < kSteps; ++i) model.decode(0, token_at(model.config(), 200 + i));
  const double seconds = now_seconds() - start;
  const EngramTraffic& after = engram.traffic();
  const auto reads = static_cast<double>(after.reads - before.reads);
  return {reads / static_cast<double>(after.rows_wanted - before.rows_wanted),
          (after.wait_s - before.wait_s) / seconds, reads / kSteps};
}

void engram_cold(const std::string& checkpoint) {
  const EngramCost released = engram_cost(checkpoint, false);
  const EngramCost resident = engram_cost(checkpoint, true);
  const double wait = std::max(released.wait_share, resident.wait_share);
  print_row("engram_cold", released.reads_per_row,
            fmt::format("reads per distinct row, all past the page cache: {:.1f} a step; {:.2f} "
                        "with scales in memory; {:.2f}% of a decode step waited for them",
                        released.reads_per_step, resident.reads_per_row, 100 * wait),
            "<= 2.1, <= 1.1 with scales in memory, wait <= 5%",
            released.reads_per_row <= 2.1 && resident.reads_per_row <= 1.1 && wait <= 0.05);
}

void gate_forecast(const std::string& checkpoint) {
  ModelHarness::Options options = options_for(checkpoint);
  ModelHarness model(options);
  const GateForecast forecast = measure_gate_forecast(model, kPrompt);
  fmt::print(
      "share of the chosen experts among the {} foretold, {} tokens: from before the "
      "layer's attention {:.3f}, from before the attention of the layer before {:.3f}; "
      "those of the token before {:.3f}; by chance {:.3f}\n",
      model.config().num_experts_per_tok, kPrompt, forecast.half_earlier, forecast.halves_earlier,
      forecast.last_token, forecast.by_chance);
}

int run(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0] == "hit_rates") {
    hit_rates();
    return 0;
  }
  if (words.size() == 3 && words[0] == "hit_rates") {
    const Result<RoutingTrace> trace = read_routing_trace(words[1]);
    CHECK(trace.has_value(), "{}", trace.error().message);
    print_rates("expert_hits_recorded", *trace, std::atoi(words[2].c_str()));
    return 0;
  }
  if (words.size() < 2) {
    fmt::print(stderr,
               "usage: streaming_speed hit_rates [TRACE SLOTS]\n"
               "       streaming_speed CHECKPOINT experts_streamed|engram_cold|gate_forecast...\n");
    return 2;
  }
  for (size_t w = 1; w < words.size(); ++w) {
    if (words[w] == "experts_streamed") experts_streamed(words[0]);
    if (words[w] == "engram_cold") engram_cold(words[0]);
    if (words[w] == "gate_forecast") gate_forecast(words[0]);
  }
  return 0;
}

}  // namespace
}  // namespace yeoul::speed

int main(int argc, char** argv) {
  return yeoul::speed::run({argv + 1, argv + argc});
}
