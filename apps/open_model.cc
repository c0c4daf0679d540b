#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "commands.h"
#include "engine/memory_plan.h"
#include "io/machine.h"
#include "text/engram_token_map.h"

namespace yeoul {

CLI::Option* add_size_option(CLI::App& command, const std::string& name, int64_t& bytes,
                             const std::string& help) {
  // CLI11 reads the number as unsigned; the unit is a power of 1024 with or without the "i".
  return command
      .add_option_function<uint64_t>(
          name, [&bytes](uint64_t value) { bytes = static_cast<int64_t>(value); }, help)
      ->transform(CLI::AsSizeValue(false))
      ->type_name("SIZE");
}

void add_model_arguments(CLI::App& command, ModelArguments& arguments) {
  command
      .add_option("--model", arguments.directory,
                  "Checkpoint directory (default: the embedded small one)")
      ->type_name("DIR");
  add_size_option(command, "--memory", arguments.memory_bytes,
                  "Memory budget, for example 64GiB (default: what is available less a margin)");
  command.add_option("--context", arguments.context_max,
                     "Tokens of one sequence, prompt and answer (default: the model's)");
  command.add_option("--threads", arguments.num_threads, "Compute threads (default: all)");
  command.add_flag("!--no-prefix-cache", arguments.prefix_cache,
                   "Keep nothing of prompts for later ones");
  command.add_option("--step-tokens", arguments.step_tokens_max, "Rows of one step")
      ->capture_default_str();
  const std::map<std::string, Accumulate> names = {{"float", Accumulate::kFloat},
                                                   {"double", Accumulate::kDouble}};
  command
      .add_option("--accumulate", arguments.accumulate,
                  "Accumulator of the sums: float, or double to compare with the reference")
      ->transform(CLI::CheckedTransformer(names))
      ->type_name("float|double");
  command
      .add_option(
          "--isa", arguments.isa,
          "Instruction set of the kernels: auto, scalar, avx2, avx512 or neon; all give the "
          "same bits")
      ->capture_default_str();
  command
      .add_option(
          "--pin", arguments.pin,
          "Bind compute threads to processors and spread memory over NUMA nodes: on, off, or "
          "auto, which does so where there are several nodes or two threads a core")
      ->capture_default_str();
}

namespace {

// The checkpoint that ships with the program: beside the build tree or the installed program.
std::string embedded_checkpoint() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  for (fs::path up = program.parent_path(); !up.empty(); up = up.parent_path()) {
    for (const char* place : {"models/yeoul-tiny", "share/yeoul/models/yeoul-tiny"}) {
      if (fs::exists(up / place / "config.json", error)) return (up / place).string();
    }
    if (up == up.parent_path()) break;
  }
  return "models/yeoul-tiny";
}

}  // namespace

std::string checkpoint_directory(const std::string& asked) {
  return asked.empty() ? embedded_checkpoint() : asked;
}

int compute_threads(int asked) {
  return asked > 0 ? asked : available_cpus();
}

MemoryOptions memory_options(const ModelArguments& arguments) {
  return {.memory_bytes = arguments.memory_bytes,
          .parallel = arguments.parallel,
          .queue_max = arguments.queue_max,
          .context_max = arguments.context_max,
          .step_tokens_max = arguments.step_tokens_max,
          .logit_rows_max = arguments.logit_rows_max,
          .num_threads = compute_threads(arguments.num_threads),
          .prefix_cache = arguments.prefix_cache,
          .disk = arguments.disk};
}

Result<OpenedModel> open_model(const ModelArguments& arguments, bool verbose) {
  const std::string directory = checkpoint_directory(arguments.directory);
  OpenedModel opened;
  TRY_ASSIGN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::open(directory));
  TRY_ASSIGN(opened.tokenizer, Tokenizer::load(directory + "/tokenizer.json"));
  LoadOptions options;
  options.accumulate = arguments.accumulate;
  TRY_ASSIGN(options.isa, parse_isa(arguments.isa));
  TRY_ASSIGN(options.pin, parse_pin(arguments.pin));
  options.memory = memory_options(arguments);
  if (arguments.is_profiled) {
    opened.profile = std::make_unique<RunProfile>();
    opened.profile->roofs = measure_roofs(options.memory.num_threads);
    options.profile = &opened.profile->steps;
  }
  options.engram_token_map = engram_token_map(*opened.tokenizer);
  ProgressLine line("loading");
  options.progress = [&](uint64_t done, uint64_t total) { line.show(done, total); };
  TRY_ASSIGN(opened.model, LoadedModel::load(checkpoint, std::move(options)));
  if (verbose) fmt::print(stderr, "memory plan:\n{}", to_string(opened.model->plan()));
  return opened;
}

int report(const Error& error) {
  fmt::print(stderr, "yeoul: {}\n", error.message);
  return 1;
}

}  // namespace yeoul
