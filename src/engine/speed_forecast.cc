#include "engine/speed_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>

#include "model/cone.h"

namespace yeoul {
namespace {

enum Group : size_t {
  kAttention,
  kSources,
  kRouter,
  kShared,
  kRouted,
  kEngramDense,
  kEngramTables,
  kEmbedding,
  kHead,
  kDraft,
  kVision,
  kKeys,
  kNumGroups,
};
constexpr const char* kNames[kNumGroups] = {"attention",
                                            "KV and index sources",
                                            "router, mHC, norms",
                                            "shared experts",
                                            "routed experts",
                                            "Engram projections",
                                            "Engram tables",
                                            "embedding",
                                            "head",
                                            "draft stages",
                                            "vision",
                                            "keys and values"};

// What one layer reads and computes.
struct LayerWork {
  double dense_bytes = 0;
  double dense_operations = 0;   // of one row
  double routed_bytes = 0;       // all experts
  double routed_operations = 0;  // of one row, its chosen experts
};

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

bool is_expert(std::string_view name) {
  return name.find(".ffn.experts.") != std::string_view::npos;
}

// "layers.12.attn.wq_a.weight" -> 12, and the rest of the name; -1 for what is not of a layer.
int32_t layer_of(std::string_view& name) {
  if (!starts_with(name, "layers.")) return -1;
  int32_t layer = -1;
  const auto parsed = std::from_chars(name.data() + 7, name.data() + name.size(), layer);
  name.remove_prefix(static_cast<size_t>(parsed.ptr - name.data()) + 1);
  return layer;
}

Group group_of(std::string_view name) {
  if (layer_of(name) >= 0) {
    if (starts_with(name, "engram.embed.")) return kEngramTables;
    if (starts_with(name, "engram.")) return kEngramDense;
    if (starts_with(name, "attn.indexer.") || starts_with(name, "attn.compressor.")) {
      return kSources;
    }
    if (starts_with(name, "attn.")) return kAttention;
    if (starts_with(name, "ffn.experts.")) return kRouted;
    return starts_with(name, "ffn.shared_experts.") ? kShared : kRouter;
  }
  if (starts_with(name, "embed.")) return kEmbedding;
  if (starts_with(name, "mtp.")) return kDraft;
  if (starts_with(name, "head.") || starts_with(name, "norm.")) return kHead;
  return kVision;
}

// Multiplications and additions of one row; scales and vectors have none.
double operations_of(const TensorEntry& entry) {
  if (entry.shape.size() != 2 || entry.dtype == Dtype::kF8E8m0) return 0;
  const auto elements = static_cast<double>(entry.shape[0] * entry.shape[1]);
  return 2 * elements * (entry.dtype == Dtype::kI8 ? 2 : 1);
}

int64_t planned_bytes(const MemoryPlan& plan, std::string_view row) {
  const auto found = std::find_if(plan.rows.begin(), plan.rows.end(),
                                  [&](const MemoryRow& r) { return r.name == row; });
  return found == plan.rows.end() ? 0 : found->num_bytes;
}

// Keys and values that the row at `position` reads in one layer.
Workload keys_of(const ModelConfig& c, int32_t layer, int64_t position) {
  const int32_t ratio = c.compress_ratios[static_cast<size_t>(layer)];
  const auto window = static_cast<double>(std::min<int64_t>(position + 1, c.sliding_window));
  Workload work;
  work.memory_bytes = window * (c.head_dim + c.head_dim / 32.0);
  double rows = window;
  if (ratio > 0) {
    const int64_t visible = (position + 1) / ratio;
    const auto selected = static_cast<double>(std::min<int64_t>(visible, c.index_topk));
    work.memory_bytes += selected * (c.head_dim / 2.0 + c.head_dim / 16.0);
    rows += selected;
    const auto& sources = c.index_source_layer_ids;
    if (std::find(sources.begin(), sources.end(), layer) != sources.end()) {
      const bool uses_pool =
          c.candidate_source_layer_id >= 0 && layer > c.candidate_source_layer_id;
      const int64_t pool = int64_t{c.candidate_topk_blocks} * c.candidate_block_size;
      const auto keys = static_cast<double>(uses_pool ? std::min(visible, pool) : visible);
      work.memory_bytes += keys * (c.index_head_dim / 2.0 + c.index_head_dim / 32.0);
      work.operations += 2 * keys * c.index_n_heads * c.index_head_dim;
    }
  }
  work.operations += 4 * rows * c.num_attention_heads * c.head_dim;
  return work;
}

// Sums over the checkpoint's tensors.
struct Tally {
  std::vector<WeightGroup> groups{kNumGroups};
  std::vector<LayerWork> layers;
  std::vector<double> table_rows;  // of each Engram table
  double head_bytes = 0, head_operations = 0;
};

void add_tensor(const TensorEntry& entry, const ModelConfig& config, double resident_experts,
                Tally& tally) {
  const Group group = group_of(entry.name);
  const auto bytes = static_cast<double>(entry.num_bytes);
  WeightGroup& sum = tally.groups[group];
  sum.stored_bytes += static_cast<int64_t>(entry.num_bytes);
  if (is_expert(entry.name)) {
    sum.resident_bytes += static_cast<int64_t>(bytes * resident_experts);
  } else if (group != kEngramTables && group != kVision) {
    sum.resident_bytes += static_cast<int64_t>(entry.num_bytes);
  }
  std::string_view name = entry.name;
  const int32_t layer = layer_of(name);
  const double chosen = config.num_experts_per_tok / static_cast<double>(config.n_routed_experts);
  if (group == kHead) {
    sum.token_bytes += bytes;
    tally.head_bytes += bytes;
    tally.head_operations += operations_of(entry);
  } else if (layer >= 0 && group == kRouted) {
    sum.token_bytes += bytes * chosen;
    tally.layers[static_cast<size_t>(layer)].routed_bytes += bytes;
    tally.layers[static_cast<size_t>(layer)].routed_operations += operations_of(entry) * chosen;
  } else if (group == kEngramTables) {
    if (entry.dtype == Dtype::kF8E4m3) {
      tally.table_rows.push_back(static_cast<double>(entry.shape[0]));
    }
  } else if (layer >= 0) {
    sum.token_bytes += bytes;
    tally.layers[static_cast<size_t>(layer)].dense_bytes += bytes;
    tally.layers[static_cast<size_t>(layer)].dense_operations += operations_of(entry);
  }
}

// Rows of all tables that one token reads.
double engram_rows(const ModelConfig& c) {
  return static_cast<double>(c.engram_layer_ids.size()) * (c.engram_max_ngram_size - 1) *
         c.engram_n_heads;
}

// Reads of a step: the distinct rows among evenly spread ones, less those kept in memory; codes and
// scales apart where the scales are in the file.
double engram_reads(const ModelConfig& c, const Tally& tally, const EngramRowsOptions& options,
                    int64_t step_rows) {
  const double columns = (c.engram_max_ngram_size - 1.0) * c.engram_n_heads;
  double distinct = 0, stored = 0;
  for (const double rows : tally.table_rows) {
    const double per_column = std::max(1.0, rows / columns);
    distinct +=
        columns * per_column * (1 - std::pow(1 - 1 / per_column, static_cast<double>(step_rows)));
    stored += rows;
  }
  const double kept =
      stored > 0 ? std::min(1.0, static_cast<double>(options.num_cached) / stored) : 0;
  return distinct * (1 - kept) * (options.scales_resident ? 1 : 2);
}

// Steps of `step_tokens` rows. Rows behind the cone's edge (cone.h) skip a layer; what they still
// leave there, a window row or a key, is small and left out.
Workload prefill_of(const ModelConfig& c, const Tally& tally, const SpeedForecast& forecast,
                    const EngramRowsOptions& engram) {
  const Cone cone(c);
  const int64_t prompt = forecast.prompt_tokens;
  const double chosen = c.num_experts_per_tok / static_cast<double>(c.n_routed_experts);
  Workload work;
  for (int64_t begin = 0; begin < prompt; begin += forecast.step_tokens) {
    const int64_t end = std::min(prompt, begin + forecast.step_tokens);
    work.disk_reads += engram_reads(c, tally, engram, end - begin);
    for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
      const int64_t first = std::max(begin, cone.output_begin(layer, prompt));
      if (first >= end) continue;
      const auto rows = static_cast<double>(end - first);
      const LayerWork& l = tally.layers[static_cast<size_t>(layer)];
      const double touched = l.routed_bytes * (1 - std::pow(1 - chosen, rows));
      const Workload keys = keys_of(c, layer, (first + end) / 2);
      work.memory_bytes += l.dense_bytes + touched + keys.memory_bytes;
      work.disk_bytes += touched * (1 - forecast.resident_experts);
      work.operations += rows * (l.dense_operations + l.routed_operations + keys.operations);
    }
  }
  work.memory_bytes += tally.head_bytes + static_cast<double>(prompt) * 2 * c.hidden_size;
  work.operations += tally.head_operations;
  return work;
}

Workload decode_of(const ModelConfig& c, const Tally& tally, double resident_experts,
                   const EngramRowsOptions& engram) {
  Workload work;
  for (const WeightGroup& group : tally.groups) work.memory_bytes += group.token_bytes;
  work.disk_bytes = tally.groups[kRouted].token_bytes * (1 - resident_experts);
  work.operations = tally.head_operations;
  for (const LayerWork& l : tally.layers) {
    work.operations += l.dense_operations + l.routed_operations;
  }
  work.disk_reads = engram_reads(c, tally, engram, 1);
  return work;
}

std::string amount(double bytes) {
  return format_bytes(static_cast<int64_t>(std::llround(bytes)));
}

void print_time(std::string& text, const Workload& work, const MachineRates& rates, double tokens) {
  const WorkTime time = time_of(work, rates);
  constexpr const char* kLimits[] = {"memory", "products", "the disk"};
  const auto line = [&](char letter, const std::string& what, const std::string& rate, double s) {
    fmt::format_to(std::back_inserter(text), "    {}  {:<34} / {:<14} {:>12.3f} ms\n", letter, what,
                   rate, 1e3 * s);
  };
  line('B', amount(work.memory_bytes) + " read from memory",
       fmt::format("{:.1f} GB/s", rates.read_bytes_per_s / 1e9), time.memory_s);
  line('F', fmt::format("{:.3g} GFLOP", work.operations / 1e9),
       fmt::format("{:.0f} GFLOP/s", rates.products_per_s / 1e9), time.compute_s);
  line('D', amount(work.disk_bytes) + " of experts from the disk",
       fmt::format("{:.2f} GB/s", rates.disk_bytes_per_s / 1e9),
       work.disk_bytes > 0 ? work.disk_bytes / rates.disk_bytes_per_s : 0);
  line('r', fmt::format("{:.0f} reads of Engram rows", work.disk_reads),
       fmt::format("{:.0f} /s", rates.disk_reads_per_s),
       work.disk_reads > 0 ? work.disk_reads / rates.disk_reads_per_s : 0);
  fmt::format_to(std::back_inserter(text), "    {:.1f} tok/s, limited by {}\n",
                 tokens / time.seconds(), kLimits[static_cast<size_t>(time.limit())]);
}

}  // namespace

double WorkTime::seconds() const {
  return std::max(memory_s, compute_s) + disk_s;
}

SpeedLimit WorkTime::limit() const {
  if (disk_s >= std::max(memory_s, compute_s)) return SpeedLimit::kDisk;
  return memory_s >= compute_s ? SpeedLimit::kMemory : SpeedLimit::kCompute;
}

WorkTime time_of(const Workload& work, const MachineRates& rates) {
  const auto over = [](double amount, double rate) { return amount > 0 ? amount / rate : 0; };
  return {over(work.memory_bytes, rates.read_bytes_per_s),
          over(work.operations, rates.products_per_s),
          over(work.disk_bytes, rates.disk_bytes_per_s) +
              over(work.disk_reads, rates.disk_reads_per_s)};
}

SpeedForecast forecast_speed(const Checkpoint& checkpoint, const MemoryPlan& plan,
                             int64_t prompt_tokens) {
  const ModelConfig& c = checkpoint.config();
  SpeedForecast forecast;
  forecast.prompt_tokens = std::clamp<int64_t>(prompt_tokens, 1, plan.context_max);
  forecast.position = forecast.prompt_tokens - 1;
  forecast.step_tokens = plan.forward.rows_max;
  const int64_t experts = int64_t{c.num_hidden_layers} * c.n_routed_experts +
                          int64_t{c.num_nextn_predict_layers} * c.dspark_n_routed_experts;
  const int64_t slots = plan.weights.experts.num_slots;  // 0: all
  forecast.resident_experts =
      slots == 0 ? 1 : std::min(1.0, static_cast<double>(slots) / static_cast<double>(experts));
  Tally tally;
  tally.layers.resize(static_cast<size_t>(c.num_hidden_layers));
  for (const TensorEntry& entry : checkpoint.tensors()) {
    add_tensor(entry, c, forecast.resident_experts, tally);
  }
  tally.groups[kEmbedding].token_bytes = 2.0 * c.hidden_size;
  tally.groups[kEngramTables].token_bytes =
      engram_rows(c) * (c.engram_head_dim + c.engram_head_dim / 32.0);
  tally.groups[kEngramTables].resident_bytes =
      std::min(planned_bytes(plan, "Engram tables"), tally.groups[kEngramTables].stored_bytes);
  tally.groups[kKeys].resident_bytes = planned_bytes(plan, "KV pages");
  Workload keys;
  for (int32_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const Workload part = keys_of(c, layer, forecast.position);
    keys.memory_bytes += part.memory_bytes;
    keys.operations += part.operations;
  }
  tally.groups[kKeys].token_bytes = keys.memory_bytes;
  for (size_t g = 0; g < kNumGroups; ++g) tally.groups[g].name = kNames[g];
  forecast.decode = decode_of(c, tally, forecast.resident_experts, plan.weights.engram);
  forecast.decode.operations += keys.operations;
  forecast.prefill = prefill_of(c, tally, forecast, plan.weights.engram);
  forecast.groups = std::move(tally.groups);
  return forecast;
}

std::string to_string(const SpeedForecast& forecast, const MachineRates& rates) {
  std::string text =
      fmt::format("  {:<22} {:>12} {:>12} {:>15}\n", "", "stored", "in memory", "a token reads");
  for (const WeightGroup& group : forecast.groups) {
    if (group.stored_bytes == 0 && group.token_bytes == 0) continue;
    const auto share = [&] {
      if (group.stored_bytes == 0 || group.resident_bytes >= group.stored_bytes) return "";
      return group.resident_bytes == 0 ? "  stays in the file" : "  the rest stays in the file";
    };
    fmt::format_to(std::back_inserter(text), "  {:<22} {:>12} {:>12} {:>15}{}\n", group.name,
                   group.stored_bytes > 0 ? format_bytes(group.stored_bytes) : "-",
                   format_bytes(group.resident_bytes), amount(group.token_bytes), share());
  }
  text += "  predicted time: max(B / memory, F / products) + D / disk + r / disk\n";
  text += fmt::format("  decode, the token at position {} of one sequence\n", forecast.position);
  print_time(text, forecast.decode, rates, 1);
  text += fmt::format("  prefill, a prompt of {} tokens in steps of {}\n", forecast.prompt_tokens,
                      forecast.step_tokens);
  print_time(text, forecast.prefill, rates, static_cast<double>(forecast.prompt_tokens));
  return text;
}

}  // namespace yeoul
