#include "support/routing_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "base/check.h"
#include "base/counter_rng.h"
#include "model/expert_cache.h"

namespace yeoul {
namespace {

// Numbers in (0, 1), one after another, from a seed.
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : key_(mix64(seed)) {}
  double next() { return unit_interval(counter_bits(key_, ++count_)); }

 private:
  uint64_t key_;
  uint64_t count_ = 0;
};

std::vector<int32_t> order_of(int32_t n, Uniform& uniform) {
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(uniform.next() * static_cast<double>(i))]);
  }
  return order;
}

// Logarithms of the weights, by expert.
std::vector<double> zipf_weights(int32_t experts, double exponent, Uniform& uniform) {
  std::vector<double> weights(static_cast<size_t>(experts));
  const std::vector<int32_t> order = order_of(experts, uniform);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    weights[static_cast<size_t>(order[rank])] = -exponent * std::log(static_cast<double>(rank + 1));
  }
  return weights;
}

// The `chosen` largest of weight + Gumbel noise: a draw without replacement.
std::vector<int32_t> draw(const std::vector<double>& weights, int32_t chosen, Uniform& uniform) {
  std::vector<std::pair<double, int32_t>> keys;
  for (size_t e = 0; e < weights.size(); ++e) {
    keys.emplace_back(weights[e] - std::log(-std::log(uniform.next())), static_cast<int32_t>(e));
  }
  std::partial_sort(keys.begin(), keys.begin() + chosen, keys.end(), std::greater<>());
  std::vector<int32_t> experts;
  for (int32_t k = 0; k < chosen; ++k) experts.push_back(keys[static_cast<size_t>(k)].second);
  std::sort(experts.begin(), experts.end());
  return experts;
}

// Steps of all tokens; weights_at(token, layer) are the logarithms of the weights.
template <typename WeightsAt>
RoutingTrace trace_of(std::string name, const TraceShape& shape, Uniform& uniform,
                      const WeightsAt& weights_at) {
  RoutingTrace trace{std::move(name), shape.layers, shape.experts, {}};
  for (int32_t token = 0; token < shape.tokens; ++token) {
    for (int32_t layer = 0; layer < shape.layers; ++layer) {
      trace.steps.push_back(draw(weights_at(token, layer), shape.chosen, uniform));
    }
  }
  return trace;
}

using LayerWeightLogs = std::vector<std::vector<double>>;

LayerWeightLogs zipf_layers(const TraceShape& shape, double exponent, Uniform& uniform) {
  LayerWeightLogs layers;
  for (int32_t layer = 0; layer < shape.layers; ++layer) {
    layers.push_back(zipf_weights(shape.experts, exponent, uniform));
  }
  return layers;
}

// The uses of a trace as experts numbered through all layers, and when each is used next.
struct Uses {
  explicit Uses(const RoutingTrace& trace) {
    std::vector<size_t> next_of(static_cast<size_t>(trace.layers * trace.experts), kNever);
    steps.resize(trace.steps.size());
    next.resize(trace.steps.size());
    for (size_t s = trace.steps.size(); s-- > 0;) {
      const auto first =
          static_cast<int32_t>(s % static_cast<size_t>(trace.layers)) * trace.experts;
      for (const int32_t expert : trace.steps[s]) {
        const auto use = static_cast<size_t>(first + expert);
        steps[s].push_back(use);
        next[s].push_back(next_of[use]);
        next_of[use] = s;
      }
    }
  }
  static constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<std::vector<size_t>> steps;
  std::vector<std::vector<size_t>> next;  // step of the next use
};

// A cache that makes room by the largest rank; rank_of(step, place) of a use is what its expert
// has until it is used again.
template <typename RankOf>
double play_ranked(const RoutingTrace& trace, int32_t slots, size_t cold, const RankOf& rank_of) {
  const Uses uses(trace);
  std::vector<size_t> held;  // experts in the cache
  std::vector<size_t> rank(static_cast<size_t>(trace.layers * trace.experts));
  std::vector<int32_t> used_at(rank.size(), -1);
  std::vector<bool> is_held(rank.size());
  size_t hits = 0, counted = 0;
  for (size_t s = 0; s < uses.steps.size(); ++s) {
    const std::vector<size_t>& step = uses.steps[s];
    for (const size_t use : step) used_at[use] = static_cast<int32_t>(s);
    for (size_t p = 0; p < step.size(); ++p) {
      rank[step[p]] = rank_of(uses, s, p);
      if (s >= cold) ++counted, hits += is_held[step[p]] ? 1 : 0;
    }
    for (const size_t use : step) {
      if (is_held[use]) continue;
      if (held.size() == static_cast<size_t>(slots)) {
        auto worst = held.end();
        for (auto at = held.begin(); at != held.end(); ++at) {
          if (used_at[*at] == static_cast<int32_t>(s)) continue;
          if (worst == held.end() || rank[*at] > rank[*worst]) worst = at;
        }
        CHECK(worst != held.end(), "{} slots cannot hold a step", slots);
        is_held[*worst] = false;
        *worst = use;
      } else {
        held.push_back(use);
      }
      is_held[use] = true;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(std::max<size_t>(counted, 1));
}

double play_forecast(const RoutingTrace& trace, int32_t slots, size_t cold) {
  const std::vector<int32_t> experts_of_layer(static_cast<size_t>(trace.layers), trace.experts);
  ExpertCache cache(experts_of_layer, slots);
  size_t hits = 0, counted = 0;
  for (size_t s = 0; s < trace.steps.size(); ++s) {
    const auto layer = static_cast<int32_t>(s % static_cast<size_t>(trace.layers));
    cache.visit(layer, trace.steps[s]);
    std::vector<int32_t> missing;
    for (const int32_t expert : trace.steps[s]) {
      const int32_t use = cache.index(layer, expert);
      const bool is_hit = cache.hold(use);
      if (!is_hit) missing.push_back(use);
      if (s >= cold) ++counted, hits += is_hit ? 1 : 0;
    }
    for (const int32_t use : missing) CHECK(cache.take(use), "{} slots cannot hold a step", slots);
    for (const int32_t expert : trace.steps[s]) cache.release(cache.index(layer, expert));
  }
  return static_cast<double>(hits) / static_cast<double>(std::max<size_t>(counted, 1));
}

}  // namespace

RoutingTrace zipf_trace(const TraceShape& shape, uint64_t seed) {
  Uniform uniform(seed);
  const LayerWeightLogs layers = zipf_layers(shape, 1.0, uniform);
  return trace_of("zipf", shape, uniform, [&](int32_t, int32_t layer) -> const auto& {
    return layers[static_cast<size_t>(layer)];
  });
}

RoutingTrace topics_trace(const TraceShape& shape, uint64_t seed) {
  constexpr int32_t kTopics = 32, kFavourites = 40;
  constexpr double kLasting = 100, kFavour = 12;
  Uniform uniform(seed);
  const LayerWeightLogs base = zipf_layers(shape, 0.5, uniform);
  std::vector<LayerWeightLogs> topics(kTopics, base);
  for (LayerWeightLogs& topic : topics) {
    for (std::vector<double>& weights : topic) {
      const std::vector<int32_t> order = order_of(shape.experts, uniform);
      for (size_t f = 0; f < kFavourites; ++f) {
        weights[static_cast<size_t>(order[f])] += std::log(kFavour);
      }
    }
  }
  const std::vector<double> popularity = zipf_weights(kTopics, 1.0, uniform);
  auto topic = static_cast<size_t>(draw(popularity, 1, uniform)[0]);
  int32_t token_before = 0;
  return trace_of("topics", shape, uniform, [&](int32_t token, int32_t layer) -> const auto& {
    if (token != token_before && uniform.next() < 1 / kLasting) {
      topic = static_cast<size_t>(draw(popularity, 1, uniform)[0]);
    }
    token_before = token;
    return topics[topic][static_cast<size_t>(layer)];
  });
}

RoutingTrace phases_trace(const TraceShape& shape, uint64_t seed) {
  constexpr int32_t kPhase = 600;  // tokens
  Uniform uniform(seed);
  std::vector<LayerWeightLogs> phases;
  for (int32_t token = 0; token < shape.tokens; token += kPhase) {
    phases.push_back(zipf_layers(shape, 1.0, uniform));
  }
  return trace_of("phases", shape, uniform, [&](int32_t token, int32_t layer) -> const auto& {
    return phases[static_cast<size_t>(token / kPhase)][static_cast<size_t>(layer)];
  });
}

Result<RoutingTrace> read_routing_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) return fail(ErrorCode::kNotFound, path + ": cannot open");
  RoutingTrace trace;
  trace.name = path;
  std::map<std::pair<int64_t, int32_t>, std::vector<int32_t>> steps;  // by (position, layer)
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::pair<int64_t, int32_t> at;
    numbers >> at.first >> at.second;
    std::vector<int32_t> experts;
    for (int32_t expert = 0; numbers >> expert;) experts.push_back(expert);
    if (experts.empty() || !numbers.eof() || at.first < 0 || at.second < 0) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: position, layer and experts expected, found: {}", path, line));
    }
    std::sort(experts.begin(), experts.end());
    trace.layers = std::max(trace.layers, at.second + 1);
    trace.experts = std::max(trace.experts, experts.back() + 1);
    steps[at] = std::move(experts);
  }
  for (auto& [at, experts] : steps) {
    if (trace.steps.size() != static_cast<size_t>(at.first * trace.layers + at.second)) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("{}: position {} or the one before lacks a layer", path, at.first));
    }
    trace.steps.push_back(std::move(experts));
  }
  return trace;
}

HitRates play(const RoutingTrace& trace, int32_t slots, size_t cold) {
  // Later is smaller: the largest rank is the oldest use.
  const auto age = [](const Uses&, size_t step, size_t) { return Uses::kNever - step; };
  const auto next_use = [](const Uses& uses, size_t step, size_t place) {
    return uses.next[step][place];
  };
  return {.lru = play_ranked(trace, slots, cold, age),
          .forecast = play_forecast(trace, slots, cold),
          .belady = play_ranked(trace, slots, cold, next_use)};
}

}  // namespace yeoul
