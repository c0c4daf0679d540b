#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/random_weights.h"
#include "checkpoint/release_config.h"
#include "commands.h"
#include "engine/memory_plan.h"
#include "io/machine.h"
#include "model/engram_hash.h"
#include "text/engram_token_map.h"
#include "text/plain_tokenizer.h"

namespace yeoul {
namespace {

struct MakeArguments {
  std::string directory;
  ModelConfig config = release_config();  // the widths to write
  int32_t num_layers = 4;
  bool is_whole_release = false;
  bool is_hollow = false;
  uint64_t seed = 1;
  int num_threads = available_cpus();
};

// The configuration asked for, except what depends on the tokenizer.
Result<ModelConfig> config_of(const MakeArguments& arguments) {
  if (arguments.is_whole_release) return release_config();
  TRY_ASSIGN(ModelConfig config, slice_config(arguments.num_layers));
  const ModelConfig& asked = arguments.config;
  config.hidden_size = asked.hidden_size;
  config.vocab_size = asked.vocab_size;
  config.n_routed_experts = asked.n_routed_experts;
  config.num_experts_per_tok = asked.num_experts_per_tok;
  config.moe_intermediate_size = asked.moe_intermediate_size;
  config.engram_vocab_size = asked.engram_vocab_size;
  config.max_position_embeddings = asked.max_position_embeddings;
  return config;
}

// Engram's classes and table rows follow from the tokenizer.
Result<PlainTokenizer> fit_tokenizer(ModelConfig& config) {
  TRY_ASSIGN(PlainTokenizer made, make_plain_tokenizer(config.vocab_size));
  config.image_token_id = made.image_token;
  TRY_ASSIGN(const std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::parse(made.json));
  std::vector<int32_t> token_map = engram_token_map(*tokenizer);
  config.engram_compressed_vocab_size = 1 + *std::max_element(token_map.begin(), token_map.end());
  TRY_ASSIGN(const EngramHash hash, EngramHash::create(config, std::move(token_map)));
  config.engram_num_embeddings.clear();
  for (const std::vector<int64_t>& primes : hash.primes()) {
    config.engram_num_embeddings.push_back(std::reduce(primes.begin(), primes.end()));
  }
  return made;
}

// Before hours of writing, not after.
Result<void> check_space(const std::string& directory, uint64_t num_bytes) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const auto space = std::filesystem::space(directory, error);
  if (error) {
    return fail(ErrorCode::kUnavailable,
                fmt::format("{}: cannot write: {}", directory, error.message()));
  }
  if (space.available >= num_bytes) return {};
  return fail(ErrorCode::kResourceExhausted,
              fmt::format("{}: {} needed, {} free", directory,
                          format_bytes(static_cast<int64_t>(num_bytes)),
                          format_bytes(static_cast<int64_t>(space.available))));
}

Result<void> make_checkpoint(const MakeArguments& arguments) {
  TRY_ASSIGN(ModelConfig config, config_of(arguments));
  std::string tokenizer_json;
  if (!arguments.is_whole_release) {
    TRY_ASSIGN(PlainTokenizer tokenizer, fit_tokenizer(config));
    tokenizer_json = std::move(tokenizer.json);
  }
  CheckpointPlan plan = plan_checkpoint(config);
  plan.tokenizer_json = std::move(tokenizer_json);
  TRY(parse_config(plan.config_json));  // says what does not fit together
  if (!arguments.is_hollow) TRY(check_space(arguments.directory, plan.num_bytes()));

  ProgressLine line("writing");
  const RandomWeights weights(arguments.seed);
  WriteOptions options;
  options.num_threads = arguments.num_threads;
  options.on_progress = [&](uint64_t done, uint64_t total) { line.show(done, total); };
  if (!arguments.is_hollow) {
    options.fill = [&](const ExpectedTensor& tensor, uint64_t offset, std::span<std::byte> into) {
      weights.fill(tensor, offset, into);
    };
  }
  TRY(write_checkpoint(plan, arguments.directory, options));
  TRY_ASSIGN(const std::shared_ptr<const Checkpoint> made, Checkpoint::open(arguments.directory));
  fmt::print("{}: {} tensors, {} in {} files\n", arguments.directory, made->totals().num_tensors,
             format_bytes(static_cast<int64_t>(made->totals().num_bytes)), made->shards().size());
  return {};
}

}  // namespace

void add_make_checkpoint_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<MakeArguments>();
  ModelConfig& config = arguments->config;
  // 98 GB a table as released; small enough here to stay beside a layer.
  config.engram_vocab_size = 20000;
  CLI::App* command = app.add_subcommand(
      "make-checkpoint",
      "Write a checkpoint of the released format with made-up weights, for measuring a machine");
  command->add_option("directory", arguments->directory, "New folder")->required();
  const auto number = [&](const char* name, auto& value, const char* help) {
    return command->add_option(name, value, help)->capture_default_str();
  };
  number("--layers", arguments->num_layers,
         "Layers, 4 or more: two with the window only, the rest "
         "shared between ratio 2 and 1 as released");
  number("--experts", config.n_routed_experts, "Routed experts of a layer");
  number("--experts-per-token", config.num_experts_per_tok, "Routed experts a token uses");
  number("--expert-width", config.moe_intermediate_size, "Hidden units of an expert");
  number("--hidden", config.hidden_size, "Width of the residual");
  number("--vocab", config.vocab_size, "Token ids");
  number("--context", config.max_position_embeddings, "Positions the configuration allows");
  number("--engram-vocab", config.engram_vocab_size,
         "About the rows of one of the 24 hash columns of an Engram table");
  CLI::Option* whole =
      command->add_flag("--release", arguments->is_whole_release,
                        "The whole release, with draft stages, vision and full Engram tables, 510 "
                        "GB, without a tokenizer");
  for (const char* width : {"--layers", "--experts", "--experts-per-token", "--expert-width",
                            "--hidden", "--vocab", "--context", "--engram-vocab"}) {
    whole->excludes(command->get_option(width));
  }
  command->add_flag("--hollow", arguments->is_hollow,
                    "Headers only: the weights are holes of the files that read as zeros");
  number("--seed", arguments->seed, "Equal seeds give equal files");
  number("--threads", arguments->num_threads, "Threads that make weights")
      ->check(CLI::Range(1, 1024));
  command->callback([arguments, &exit_code] {
    const Result<void> made = make_checkpoint(*arguments);
    exit_code = made ? 0 : report(made.error());
  });
}

}  // namespace yeoul
