#include <fmt/format.h>

#include <vector>

#include "backend/cpu/thread_pool.h"
#include "base/json.h"
#include "commands.h"
#include "engine/memory_plan.h"
#include "measure/findings.h"
#include "measure/linear_speed.h"
#include "measure/roofs.h"

namespace yeoul {
namespace {

struct DoctorArguments {
  std::string directory;  // empty: the embedded checkpoint
  int num_threads = 0;
  double disk_seconds = 3;
  bool is_json = false;
};

struct Examination {
  MachineFacts facts;
  SpeedFigures speed;
  DiskFigures disk;
  int64_t checkpoint_bytes = 0;
  std::vector<Finding> findings;
};

SpeedFigures measure_speed(int threads, int64_t available_bytes) {
  // More than the caches of a large server hold, where there is room for it.
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  const auto bytes = static_cast<size_t>(std::min(kMostBytes, available_bytes / 4));
  const std::vector<uint8_t> memory(bytes, 1);
  ThreadPool all(threads), one(1);
  const LinearSpeed linear =
      measure_linear(all, best_isa(), std::min(400e6, static_cast<double>(bytes) / 2));
  return {.threads = threads,
          .isa = best_isa(),
          .read_bytes_per_s = read_roof(all, memory.data(), bytes),
          .read_bytes_per_s_one_thread = read_roof(one, memory.data(), bytes),
          .multiply_flops_per_s = bf16_peak(all),
          .multiply_flops_per_s_one_thread = bf16_peak(one),
          .fork_join_s = fork_join_seconds(all),
          .linear_bytes_per_s = linear.bytes_per_s,
          .linear_flops_per_s = linear.products_per_s};
}

Result<Examination> examine(const DoctorArguments& arguments) {
  const std::string directory = checkpoint_directory(arguments.directory);
  Examination found;
  TRY_ASSIGN(const std::shared_ptr<const Checkpoint> checkpoint, Checkpoint::open(directory));
  found.checkpoint_bytes = static_cast<int64_t>(checkpoint->totals().num_bytes);
  found.facts = read_machine_facts();
  TRY_ASSIGN(found.disk, measure_disk(directory, arguments.disk_seconds));
  const int threads = compute_threads(arguments.num_threads);
  found.speed = measure_speed(threads, found.facts.available_memory_bytes);
  found.findings = find_slow_parts(found.facts, found.speed, found.disk, found.checkpoint_bytes);
  return found;
}

void print_text(const Examination& e) {
  const auto row = [](const char* name, const std::string& value) {
    fmt::print("  {:<22} {}\n", name, value);
  };
  const auto known = [](const std::string& text) { return text.empty() ? "not told" : text; };
  fmt::print("machine\n");
  row("processor", known(e.facts.processor));
  row("processors",
      fmt::format(
          "{} online, {} allowed, quota {}", e.facts.processors, e.facts.allowed_processors,
          e.facts.quota_processors > 0 ? std::to_string(e.facts.quota_processors) : "none"));
  row("instruction set", name_of(e.speed.isa));
  row("memory", fmt::format("{}, {} available", format_bytes(e.facts.memory_bytes),
                            format_bytes(e.facts.available_memory_bytes)));
  row("load", fmt::format("{:.1f}", e.facts.load));
  row("NUMA nodes", std::to_string(e.facts.numa_nodes));
  row("huge pages", known(e.facts.huge_pages));
  row("governor", known(e.facts.governor));
  fmt::print("\nmeasured, {} threads (one thread)\n", e.speed.threads);
  row("memory read", fmt::format("{:.1f} GB/s ({:.1f})", e.speed.read_bytes_per_s / 1e9,
                                 e.speed.read_bytes_per_s_one_thread / 1e9));
  row("multiply-add peak",
      fmt::format("{:.0f} GFLOP/s ({:.0f})", e.speed.multiply_flops_per_s / 1e9,
                  e.speed.multiply_flops_per_s_one_thread / 1e9));
  row("linear layers",
      fmt::format(
          "one row {:.1f} GB/s, {:.0f}% of the reading; 128 rows {:.0f} GFLOP/s, {:.0f}% of "
          "the peak",
          e.speed.linear_bytes_per_s / 1e9,
          100 * e.speed.linear_bytes_per_s / e.speed.read_bytes_per_s,
          e.speed.linear_flops_per_s / 1e9,
          100 * e.speed.linear_flops_per_s / e.speed.multiply_flops_per_s));
  row("fork and join", fmt::format("{:.1f} us", e.speed.fork_join_s * 1e6));
  fmt::print("\ndisk under {} ({}{})\n", e.disk.file, e.disk.filesystem,
             e.disk.is_direct ? "" : ", through the page cache");
  row("one 4 KiB read", fmt::format("{:.0f} us", e.disk.latency_s * 1e6));
  row("4 KiB reads", fmt::format("{:.0f} /s, {} at once", e.disk.reads_per_s, e.disk.threads));
  row("64 KiB reads",
      fmt::format("{:.2f} GB/s, {} at once", e.disk.small_bytes_per_s / 1e9, e.disk.threads));
  row("1 MiB reads",
      fmt::format("{:.2f} GB/s, {} at once", e.disk.bytes_per_s / 1e9, e.disk.threads));
  fmt::print("\n{}\n", e.findings.empty() ? "nothing found that makes it slower than it could be"
                                          : "what makes it slower than it could be");
  for (const Finding& finding : e.findings) {
    fmt::print("  - {}\n      {}\n", finding.what, finding.advice);
  }
}

void print_json(const Examination& e) {
  Json findings = Json::array();
  for (const Finding& f : e.findings) findings.push_back({{"what", f.what}, {"advice", f.advice}});
  const Json all = {{"machine",
                     {{"processor", e.facts.processor},
                      {"processors", e.facts.processors},
                      {"allowed_processors", e.facts.allowed_processors},
                      {"quota_processors", e.facts.quota_processors},
                      {"numa_nodes", e.facts.numa_nodes},
                      {"governor", e.facts.governor},
                      {"huge_pages", e.facts.huge_pages},
                      {"memory_bytes", e.facts.memory_bytes},
                      {"available_memory_bytes", e.facts.available_memory_bytes},
                      {"swap_used_bytes", e.facts.swap_used_bytes},
                      {"load", e.facts.load},
                      {"stolen_share", e.facts.stolen_share}}},
                    {"measured",
                     {{"threads", e.speed.threads},
                      {"isa", name_of(e.speed.isa)},
                      {"read_bytes_per_s", e.speed.read_bytes_per_s},
                      {"read_bytes_per_s_one_thread", e.speed.read_bytes_per_s_one_thread},
                      {"multiply_flops_per_s", e.speed.multiply_flops_per_s},
                      {"multiply_flops_per_s_one_thread", e.speed.multiply_flops_per_s_one_thread},
                      {"fork_join_s", e.speed.fork_join_s},
                      {"linear_bytes_per_s", e.speed.linear_bytes_per_s},
                      {"linear_flops_per_s", e.speed.linear_flops_per_s}}},
                    {"disk",
                     {{"file", e.disk.file},
                      {"filesystem", e.disk.filesystem},
                      {"is_network", e.disk.is_network},
                      {"is_direct", e.disk.is_direct},
                      {"latency_s", e.disk.latency_s},
                      {"reads_per_s", e.disk.reads_per_s},
                      {"small_bytes_per_s", e.disk.small_bytes_per_s},
                      {"bytes_per_s", e.disk.bytes_per_s},
                      {"threads", e.disk.threads}}},
                    {"checkpoint_bytes", e.checkpoint_bytes},
                    {"findings", findings}};
  fmt::print("{}\n", dump_compact(all));
}

}  // namespace

void add_doctor_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<DoctorArguments>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Measure this machine and say what makes it slower than it could be");
  command
      ->add_option("--model,MODEL", arguments->directory,
                   "Checkpoint directory whose disk is measured (default: the embedded one)")
      ->type_name("DIR");
  command->add_option("--threads", arguments->num_threads, "Compute threads (default: all)");
  command->add_option("--disk-seconds", arguments->disk_seconds, "Time for reading the disk")
      ->capture_default_str()
      ->check(CLI::Range(0.01, 600.0));
  command->add_flag("--json", arguments->is_json, "One JSON object instead of text");
  command->callback([arguments, &exit_code] {
    const Result<Examination> found = examine(*arguments);
    if (found) (arguments->is_json ? print_json : print_text)(*found);
    exit_code = found ? 0 : report(found.error());
  });
}

}  // namespace yeoul
