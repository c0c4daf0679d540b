#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>

#include "commands.h"
#include "engine/memory_plan.h"

namespace yeoul {
namespace {

struct InspectArguments {
  ModelArguments model;
  RateArguments rates;
  int64_t prompt_tokens = 8192;
};

void print_config(const ModelConfig& c) {
  fmt::print("architecture\n");
  const auto row = [](const char* name, const std::string& value) {
    fmt::print("  {:<24} {}\n", name, value);
  };
  row("layers", fmt::format("{} (decoder from layer {})", c.num_hidden_layers, c.decoder_start()));
  row("hidden, vocabulary", fmt::format("{}, {}", c.hidden_size, c.vocab_size));
  row("heads",
      fmt::format("{} of {}, {} rotary", c.num_attention_heads, c.head_dim, c.qk_rope_head_dim));
  row("experts", fmt::format("{} of {}, {} shared, width {}", c.num_experts_per_tok,
                             c.n_routed_experts, c.n_shared_experts, c.moe_intermediate_size));
  row("window", fmt::format("{}", c.sliding_window));
  row("KV sources", fmt::format("{}", fmt::join(c.kv_source_layer_ids, ", ")));
  row("index sources", fmt::format("{}", fmt::join(c.index_source_layer_ids, ", ")));
  row("selection",
      fmt::format("{} rows, pool of {} blocks of {} from layer {}", c.index_topk,
                  c.candidate_topk_blocks, c.candidate_block_size, c.candidate_source_layer_id));
  row("Engram layers", fmt::format("{}", fmt::join(c.engram_layer_ids, ", ")));
  row("DSpark stages",
      fmt::format("{}, blocks of {}", c.num_nextn_predict_layers, c.dspark_block_size));
  row("context", fmt::format("{}", c.max_position_embeddings));
}

void print_totals(const Checkpoint& checkpoint) {
  const CheckpointTotals& totals = checkpoint.totals();
  fmt::print("\ntensors\n  {:<24} {:>8}  {:>12}  {} bytes\n", "all", totals.num_tensors,
             format_bytes(static_cast<int64_t>(totals.num_bytes)), totals.num_bytes);
  const auto print = [](const auto& table) {
    for (const auto& [name, bytes] : std::map(table.begin(), table.end())) {
      fmt::print("  {:<24} {:>8}  {:>12}  {} bytes\n", name, "",
                 format_bytes(static_cast<int64_t>(bytes)), bytes);
    }
  };
  print(totals.bytes_by_owner);
  print(totals.bytes_by_dtype);
  fmt::print("  {:<24} {:>8}\n", "shards", checkpoint.shards().size());
}

// A plan that does not fit is what inspect is asked about, not a failure of it.
Result<void> print_plan(const InspectArguments& asked, const Checkpoint& checkpoint,
                        const MemoryOptions& options) {
  const Result<MemoryPlan> plan = plan_memory(checkpoint, options);
  fmt::print("\nmemory plan, {} sequences at once\n{}", options.parallel,
             plan ? to_string(*plan) : plan.error().message);
  if (!plan) return {};
  std::fflush(stdout);
  TRY_ASSIGN(const Isa isa, parse_isa(asked.model.isa));
  TRY_ASSIGN(const MachineRates rates,
             machine_rates(asked.rates, isa, options.num_threads, checkpoint.directory()));
  fmt::print("\nwhat goes where, and how fast that is\n{}",
             to_string(forecast_speed(checkpoint, *plan, asked.prompt_tokens), rates));
  return {};
}

Result<void> inspect(const InspectArguments& asked) {
  const ModelArguments& arguments = asked.model;
  const std::string directory = checkpoint_directory(arguments.directory);
  TRY_ASSIGN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::open(directory));
  fmt::print("{}\n\n", directory);
  print_config(checkpoint->config());
  print_totals(*checkpoint);
  return print_plan(asked, *checkpoint, memory_options(arguments));
}

}  // namespace

void add_inspect_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<InspectArguments>();
  ModelArguments& model = arguments->model;
  model.parallel = 16;
  model.queue_max = 256;
  CLI::App* command = app.add_subcommand(
      "inspect", "Print a checkpoint's configuration, totals and memory plan, and its speed here");
  add_model_arguments(*command, model);
  add_rate_options(*command, arguments->rates);
  command->add_option("MODEL", model.directory, "Checkpoint directory, as --model");
  command->add_option("--parallel", model.parallel, "Sequences at once")->capture_default_str();
  command
      ->add_option("--prompt-tokens", arguments->prompt_tokens,
                   "Length of the prompt whose speed is predicted")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->callback([arguments, &exit_code] {
    const Result<void> inspected = inspect(*arguments);
    exit_code = inspected ? 0 : report(inspected.error());
  });
}

}  // namespace yeoul
