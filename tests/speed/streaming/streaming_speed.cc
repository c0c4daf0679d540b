// Weights that are not in memory: which experts stay, how fast the others come, and what a step
// waits for Engram rows.
//   streaming_speed hit_rates [TRACE SLOTS]   JSON lines; or those of a recorded trace
//   streaming_speed CHECKPOINT NAME...        experts_streamed, experts_ahead, engram_cold; a
//   folder of
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

// Slots for a quarter of the experts.
ModelHarness::Options streamed_options(const std::string& checkpoint) {
  ModelHarness::Options options = options_for(checkpoint);
  const auto opened = Checkpoint::open(checkpoint);
  CHECK(opened.has_value(), "{}", opened.error().message);
  const ModelConfig& config = (*opened)->config();
  options.experts.num_slots = config.n_routed_experts * config.num_hidden_layers / 4;
  return options;
}

// Decode steps of one sequence, a part at a time.
struct Decoding {
  explicit Decoding(const ModelHarness::Options& options) : model(options) { read_prompt(model); }
  // -> seconds
  double run(size_t steps) {
    const ExpertTraffic before = experts().traffic();
    const double start = now_seconds();
    for (size_t i = 0; i < steps; ++i) {
      model.decode(0, token_at(model.config(), kPrompt + num_steps++));
    }
    const double seconds = now_seconds() - start;
    traffic = traffic + (experts().traffic() - before);
    return seconds;
  }
  const ExpertStore& experts() const { return model.weights().experts(); }

  ModelHarness model;
  ExpertTraffic traffic;
  size_t num_steps = 0;
};

void experts_streamed(const std::string& checkpoint) {
  Decoding decoding(streamed_options(checkpoint));
  const ExpertStore& experts = decoding.experts();
  double disk = 0;
  for (size_t round = 0; round < 3; ++round) {
    disk = std::max(disk, disk_rate(decoding.model.weights().checkpoint(), 1));
    decoding.run(12);
  }
  const ExpertTraffic& sum = decoding.traffic;
  const double rate = static_cast<double>(sum.bytes_read) / sum.read_s;
  print_row("experts_streamed", rate / disk,
            fmt::format("of the disk's throughput while experts are missing: {:.2f} of {:.2f} GB/s "
                        "through {}, a quarter of the experts of {:.1f} MB in memory, {:.0f}% of "
                        "uses missing",
                        rate / 1e9, disk / 1e9, experts.reader().way(),
                        static_cast<double>(experts.expert_bytes()) / 1e6,
                        100.0 * static_cast<double>(sum.misses) /
                            static_cast<double>(sum.hits + sum.misses)),
            ">= 0.9", rate / disk >= 0.9);
}

// The same steps with and without reading ahead of the router, in turns.
void experts_ahead(const std::string& checkpoint) {
  ModelHarness::Options options = streamed_options(checkpoint);
  Decoding ahead(options);
  options.experts.read_ahead = false;
  Decoding behind(options);
  double ahead_s = 0, behind_s = 0;
  for (size_t round = 0; round < 6; ++round) {
    ahead_s += ahead.run(8);
    behind_s += behind.run(8);
  }
  const auto misses = static_cast<double>(ahead.traffic.misses);
  print_row(
      "experts_ahead", behind_s / ahead_s,
      fmt::format("speed of decoding against reading what the router chose only; {:.0f}% of "
                  "the missing experts were foreseen, {:.2f} read for nothing per missing "
                  "one; {:.0f}% and {:.0f}% of the time waited for reads",
                  100 * static_cast<double>(ahead.traffic.foreseen) / misses,
                  static_cast<double>(ahead.traffic.mistaken) / misses,
                  100 * ahead.traffic.wait_s / ahead_s, 100 * behind.traffic.wait_s / behind_s),
      ">= 1", behind_s >= ahead_s);
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
               "       streaming_speed CHECKPOINT "
               "experts_streamed|experts_ahead|engram_cold|gate_forecast...\n");
    return 2;
  }
  for (size_t w = 1; w < words.size(); ++w) {
    if (words[w] == "experts_streamed") experts_streamed(words[0]);
    if (words[w] == "experts_ahead") experts_ahead(words[0]);
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
