#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "backend/profile_report.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "engine/speed_forecast.h"
#include "text/tokenizer.h"

namespace yeoul {

// The subcommands of `yeoul`. Each adds itself to the command line and, when chosen, leaves its
// exit code in `exit_code`.
void add_serve_command(CLI::App& app, int& exit_code);
void add_run_command(CLI::App& app, int& exit_code);
void add_inspect_command(CLI::App& app, int& exit_code);
void add_doctor_command(CLI::App& app, int& exit_code);
void add_logits_command(CLI::App& app, int& exit_code);
void add_make_checkpoint_command(CLI::App& app, int& exit_code);

// Options that every command which loads a model has.
struct ModelArguments {
  std::string directory;  // empty: the embedded checkpoint
  int64_t memory_bytes = 0;
  int64_t context_max = 0;
  int32_t parallel = 1;
  int32_t queue_max = 0;
  int32_t step_tokens_max = 512;
  bool prefix_cache = true;
  DiskTierOptions disk;
  int32_t logit_rows_max = 0;
  int num_threads = 0;  // 0: as many as the machine gives
  Accumulate accumulate = Accumulate::kFloat;
  std::string isa = "auto";
  std::string pin = "auto";
  bool is_profiled = false;
};
void add_model_arguments(CLI::App& command, ModelArguments& arguments);

// --profile: where the time of the steps went, on stderr when the command ends.
void add_profile_option(CLI::App& command, ModelArguments& arguments);

// What the machine gives, 0 where it is to be measured.
struct RateArguments {
  double memory_gb_s = 0;
  double compute_gflop_s = 0;
  double disk_gb_s = 0;
  double disk_reads_s = 0;
};
void add_rate_options(CLI::App& command, RateArguments& rates);
// Those given, and for the rest what this machine's linear layers and the disk under `directory`
// reach in a measurement of a second or two.
Result<MachineRates> machine_rates(const RateArguments& given, Isa isa, int num_threads,
                                   const std::string& directory);

// "64GiB", "512MiB", ... -> bytes.
CLI::Option* add_size_option(CLI::App& command, const std::string& name, int64_t& bytes,
                             const std::string& help);

// `asked`, or where it is empty the checkpoint that ships with the program.
std::string checkpoint_directory(const std::string& asked);
// `asked`, or for 0 as many as the machine and its cgroup give.
int compute_threads(int asked);
MemoryOptions memory_options(const ModelArguments& arguments);

// The profile of one run of the program.
struct RunProfile {
  SteadyClock clock;
  StepProfile steps{clock};
  MachineRoofs roofs;
};
// What `num_threads` threads can read and multiply at best; takes about a second.
MachineRoofs measure_roofs(int num_threads);
// Nothing without a profile. The engine's thread must have ended.
void print_profile(const RunProfile* profile);

// Tokenizer and loaded model of one checkpoint directory.
struct OpenedModel {
  std::unique_ptr<RunProfile> profile;  // where it was asked for; the model writes into it
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<LoadedModel> model;
};
// `verbose` prints the memory plan to stderr.
Result<OpenedModel> open_model(const ModelArguments& arguments, bool verbose);

// A line on stderr that is drawn over while `done` grows and gone when it is `total`. Nothing where
// stderr is no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string title);
  void show(uint64_t done, uint64_t total);

 private:
  std::string title_;
  bool is_terminal_;
  uint64_t shown_permille_ = 1001;
};

// Prints "yeoul: message" to stderr; returns 1.
int report(const Error& error);

}  // namespace yeoul
