#include "engine/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "backend/cpu/cpu_ops.h"
#include "cache/prefix_index.h"
#include "engine/disk_tier.h"
#include "engine/engine.h"
#include "io/machine.h"

namespace yeoul {
namespace {

// Left to the kernel, the page cache and other programs when the budget is not given.
constexpr int64_t kMarginMin = int64_t{256} << 20;
constexpr double kMarginShare = 0.05;
// Tokenizer tables, connections, request bodies, code and heap of the process itself.
constexpr int64_t kProcessBytes = int64_t{192} << 20;

constexpr const char* kExpertRow = "routed experts";
constexpr const char* kEngramRow = "Engram tables";
// Of what is left beside what must fit: a hundredth keeps Engram rows that are used often.
constexpr int64_t kEngramPart = 100;
// Of what is left where experts take turns: a tenth for KV pages of further sequences.
constexpr int64_t kPagesPart = 10;
// Of what is left beside what must fit: at most a twentieth for what prompts leave to later ones.
constexpr int64_t kPrefixPart = 20;

int64_t pages_for(int64_t num_tokens) {
  return (num_tokens + kTokensPerPage - 1) / kTokensPerPage;
}

int64_t num_engram_rows(const ModelConfig& config) {
  return std::reduce(config.engram_num_embeddings.begin(), config.engram_num_embeddings.end());
}

int64_t sampler_bytes(const ModelConfig& config, int32_t parallel) {
  // Sampler: scores, candidates, ranks; TokenCounts and the mask of every slot.
  return int64_t{config.vocab_size} * (16 + int64_t{parallel} * 9 + 1);
}

// As the executor's state_units() says, before there is one; pages are a few bytes smaller.
int64_t disk_tier_bytes(const ModelConfig& config, const DiskTierOptions& options,
                        int64_t context_max) {
  const StateUnits units = {.page_bytes = KvStore::page_bytes(config, kTokensPerPage),
                            .state_bytes_max = KvStore::state_bytes_max(config)};
  const ModelShape shape = {.num_layers = config.num_hidden_layers,
                            .tokens_per_page = kTokensPerPage};
  return DiskTier::memory_bytes(options, DiskTier::unit_bytes_max(units, shape), context_max);
}

void add_rows(const Checkpoint& checkpoint, const MemoryOptions& options, MemoryPlan& plan) {
  const ModelConfig& config = checkpoint.config();
  const auto add = [&](std::string name, int64_t bytes, std::string note) {
    plan.rows.push_back({std::move(name), bytes, std::move(note)});
    plan.total_bytes += bytes;
  };
  add("weights", static_cast<int64_t>(Weights::resident_bytes(checkpoint)), "resident");
  add(kExpertRow, 0, "");  // comes last: share_out()
  plan.weights.engram.rows_max = options.step_tokens_max;
  add(kEngramRow, EngramRows::bytes(config, plan.weights.engram), "");  // may grow: share_out()
  add("windows and staging", KvStore::fixed_bytes(config, plan.kv),
      fmt::format("{} sequences, {} rows a step", options.parallel, plan.forward.rows_max));
  add("step buffers", Forward::buffer_bytes(config, plan.forward),
      fmt::format("{} rows a step, {} with logits", plan.forward.rows_max,
                  plan.forward.logit_rows_max));
  add("op workspace", cpu_ops_bytes(Forward::ops_limits(config, plan.forward), options.num_threads),
      fmt::format("{} threads", options.num_threads));
  add("sampler", sampler_bytes(config, options.parallel), "");
  const EngineMemory engine =
      engine_memory({.parallel = options.parallel, .queue_max = options.queue_max},
                    {.context_max = plan.context_max, .tokens_per_page = kTokensPerPage});
  add("event streams", engine.stream_bytes,
      fmt::format("{} running and waiting sequences", options.parallel + options.queue_max));
  // The executor keeps the tokens of running sequences a second time, for images.
  add("token ids",
      engine.running_bytes + engine.prompt_bytes +
          plan.context_max * options.parallel * int64_t{sizeof(TokenId)},
      "prompts and answers, at their longest");
  if (!options.disk.folder.empty())
    add("disk tier", disk_tier_bytes(config, options.disk, plan.context_max),
        fmt::format("buffers; {} on disk", format_bytes(options.disk.budget_bytes)));
  add("process", kProcessBytes, "tokenizer, connections, heap");
}

Result<void> check_options(const ModelConfig& config, const MemoryOptions& options) {
  const auto range = [](const char* name, int64_t value, int64_t low,
                        int64_t high) -> Result<void> {
    if (value >= low && value <= high) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: {} to {} expected, {} found", name, low, high, value));
  };
  TRY(range("context", options.context_max, 0, config.max_position_embeddings));
  TRY(range("parallel", options.parallel, 1, 4096));
  TRY(range("queue", options.queue_max, 0, 1 << 20));
  TRY(range("step tokens", options.step_tokens_max, options.parallel, 1 << 16));
  return range("threads", options.num_threads, 1, 4096);
}

// What to change when the fixed part or one sequence's pages do not fit.
Error does_not_fit(const MemoryPlan& plan, int64_t page_bytes, int64_t pages_needed) {
  const int64_t needed = plan.total_bytes + pages_needed * page_bytes;
  const int64_t pages_left = (plan.budget_bytes - plan.total_bytes) / page_bytes;
  std::string advice = fmt::format("--memory {}MiB would fit", (needed + (1 << 20) - 1) >> 20);
  if (pages_left > 0) {
    advice += fmt::format(", or --context {}", pages_left * kTokensPerPage);
  }
  return {ErrorCode::kResourceExhausted,
          fmt::format("the memory plan needs {} for one sequence of {} tokens, {} is available "
                      "({}); {}\n{}",
                      format_bytes(needed), plan.context_max, format_bytes(plan.budget_bytes),
                      plan.budget_source, advice, to_string(plan))};
}

void set_bytes(const char* name, int64_t num_bytes, std::string note, MemoryPlan& plan) {
  const auto row = std::ranges::find(plan.rows, name, &MemoryRow::name);
  plan.total_bytes += num_bytes - row->num_bytes;
  row->num_bytes = num_bytes;
  row->note = std::move(note);
}

void set_experts(const ExpertLayout& layout, int64_t slots, MemoryPlan& plan) {
  const auto slot_bytes = static_cast<int64_t>(layout.slot_bytes());
  plan.weights.experts.num_slots = static_cast<int32_t>(slots);
  set_bytes(kExpertRow, slots * slot_bytes,
            slots == layout.num_experts()
                ? "all, each read when it is first wanted"
                : fmt::format("{} of {} at a time, {} each, read when they are wanted", slots,
                              layout.num_experts(), format_bytes(slot_bytes)),
            plan);
}

void set_engram(const ModelConfig& config, int64_t cached, bool scales_resident, MemoryPlan& plan) {
  plan.weights.engram.num_cached = cached;
  plan.weights.engram.scales_resident = scales_resident;
  set_bytes(kEngramRow, EngramRows::bytes(config, plan.weights.engram),
            fmt::format("{} of {} rows{}, the rest read as they are wanted", cached,
                        num_engram_rows(config), scales_resident ? " and all scales" : ""),
            plan);
}

// What known prefixes take: places for states, and the index over them and the pages.
struct PrefixPrices {
  int64_t a_page = 0;
  int64_t a_snapshot = 0;
};

PrefixPrices prefix_prices(const ModelConfig& config, const MemoryPlan& plan) {
  const PrefixIndexBytes index =
      PrefixIndex::num_bytes({.shape = {.num_layers = config.num_hidden_layers},
                              .tokens_per_page = kTokensPerPage,
                              .length_max = plan.context_max});
  return {index.a_page, index.a_snapshot + KvStore::snapshot_bytes(config)};
}

int64_t snapshots_for(int64_t pages, const MemoryOptions& options) {
  return pages / kPagesPerSnapshot + int64_t{kSnapshotsPerSequence} * options.parallel;
}

// Adds the rows of known prefixes, as far as `budget` goes for these pages.
void add_prefix_rows(const ModelConfig& config, const MemoryOptions& options, int64_t pages,
                     int64_t budget, MemoryPlan& plan) {
  const PrefixPrices prices = prefix_prices(config, plan);
  const int64_t affordable = (budget - pages * prices.a_page) / prices.a_snapshot;
  if (affordable < 1) return;
  const int64_t snapshots = std::min(affordable, snapshots_for(pages, options));
  const int64_t states = snapshots * KvStore::snapshot_bytes(config);
  plan.kv.snapshots = static_cast<int32_t>(snapshots);
  plan.rows.push_back(
      {"prefix index", pages * prices.a_page + snapshots * prices.a_snapshot - states, ""});
  plan.total_bytes += plan.rows.back().num_bytes;
  plan.rows.push_back({"snapshots", states,
                       fmt::format("{} states of prompts, {} each", snapshots,
                                   format_bytes(KvStore::snapshot_bytes(config)))});
  plan.total_bytes += plan.rows.back().num_bytes;
}

struct KvShare {
  int64_t pages = 0;
  int64_t prefix_bytes = 0;
};

// Divides what the fixed rows leave between experts, Engram rows, KV pages and known prefixes.
Result<KvShare> share_out(const ExpertLayout& layout, const MemoryOptions& options,
                          const ModelConfig& config, MemoryPlan& plan) {
  const int64_t page_bytes = KvStore::page_bytes(config, kTokensPerPage);
  const auto slot_bytes = static_cast<int64_t>(layout.slot_bytes());
  const int64_t per_sequence = pages_for(plan.context_max);
  // Every expert that one token of each running sequence may choose at a layer.
  const int64_t slots_min = std::min<int64_t>(
      config.n_routed_experts, int64_t{config.num_experts_per_tok} * options.parallel);
  int64_t left = plan.budget_bytes - plan.total_bytes - per_sequence * page_bytes;
  int64_t spare = left - slots_min * slot_bytes;
  if (spare < 0) {
    set_experts(layout, slots_min, plan);
    return tl::unexpected<Error>(does_not_fit(plan, page_bytes, per_sequence));
  }
  const int64_t row_bytes = EngramRows::bytes_per_row(config) + EngramRowCache::bytes_per_place();
  const int64_t cached = std::min(num_engram_rows(config), spare / kEngramPart / row_bytes);
  left -= cached * row_bytes;
  spare -= cached * row_bytes;

  const int64_t pages_max = per_sequence * (options.parallel - 1);  // of further sequences
  const PrefixPrices prices = prefix_prices(config, plan);
  const int64_t pages_all = per_sequence + pages_max;
  const int64_t wanted =
      pages_all * prices.a_page + snapshots_for(pages_all, options) * prices.a_snapshot;
  const int64_t prefix_bytes = options.prefix_cache ? std::min(wanted, spare / kPrefixPart) : 0;
  left -= prefix_bytes;
  spare -= prefix_bytes;
  int64_t slots = layout.num_experts();
  int64_t pages = (left - slots * slot_bytes) / page_bytes;
  if (left < slots * slot_bytes) {
    pages = std::min(spare / kPagesPart / page_bytes, pages_max);
    slots = (left - pages * page_bytes) / slot_bytes;
  }
  pages = std::min(pages, pages_max);
  set_experts(layout, slots, plan);
  left -= slots * slot_bytes + pages * page_bytes;
  const bool has_room = slots == layout.num_experts() && left >= EngramRows::scale_bytes(config);
  set_engram(config, cached, has_room, plan);
  return KvShare{per_sequence + pages, prefix_bytes};
}

}  // namespace

std::string format_bytes(int64_t num_bytes) {
  const auto value = static_cast<double>(num_bytes);
  if (num_bytes >= int64_t{1} << 30) return fmt::format("{:.2f} GiB", value / 0x1p30);
  if (num_bytes >= 1 << 20) return fmt::format("{:.1f} MiB", value / 0x1p20);
  if (num_bytes >= 1 << 10) return fmt::format("{:.1f} KiB", value / 0x1p10);
  return fmt::format("{} B", num_bytes);
}

Result<MemoryPlan> plan_memory(const Checkpoint& checkpoint, const MemoryOptions& options) {
  const ModelConfig& config = checkpoint.config();
  TRY(check_options(config, options));
  MemoryPlan plan;
  if (options.memory_bytes > 0) {
    plan.budget_bytes = options.memory_bytes;
    plan.budget_source = "--memory";
  } else {
    const int64_t available = available_memory_bytes();
    const auto share = static_cast<int64_t>(static_cast<double>(available) * kMarginShare);
    plan.budget_bytes = available - std::max(kMarginMin, share);
    plan.budget_source = fmt::format("{} available less a margin", format_bytes(available));
  }
  plan.context_max = options.context_max > 0 ? options.context_max : config.max_position_embeddings;
  plan.forward = {
      .rows_max = options.step_tokens_max,
      .logit_rows_max = options.logit_rows_max > 0 ? options.logit_rows_max : options.parallel,
      .items_max = options.parallel,
      .slots = options.parallel,
      .parked_rows_max = 0,
      .context_max = plan.context_max};
  plan.kv = {.slots = options.parallel,
             .num_pages = 0,
             .tokens_per_page = kTokensPerPage,
             .rows_max = options.step_tokens_max};
  add_rows(checkpoint, options, plan);

  TRY_ASSIGN(const ExpertLayout layout, ExpertLayout::create(checkpoint));
  TRY_ASSIGN(const KvShare share, share_out(layout, options, config, plan));
  const int64_t page_bytes = KvStore::page_bytes(config, kTokensPerPage);
  plan.kv.num_pages = static_cast<int32_t>(std::min<int64_t>(share.pages, 1 << 30));
  add_prefix_rows(config, options, plan.kv.num_pages, share.prefix_bytes, plan);
  plan.rows.push_back({"KV pages", plan.kv.num_pages * page_bytes,
                       fmt::format("{} pages of {} tokens, {} each", plan.kv.num_pages,
                                   kTokensPerPage, format_bytes(page_bytes))});
  plan.total_bytes += plan.rows.back().num_bytes;
  return plan;
}

std::string to_string(const MemoryPlan& plan) {
  std::string text;
  for (const MemoryRow& row : plan.rows) {
    text += fmt::format("  {:<20} {:>12}  {}\n", row.name, format_bytes(row.num_bytes), row.note);
  }
  text += fmt::format("  {:<20} {:>12}\n", "total", format_bytes(plan.total_bytes));
  text += fmt::format("  {:<20} {:>12}  {}\n", "budget", format_bytes(plan.budget_bytes),
                      plan.budget_source);
  return text;
}

}  // namespace yeoul
