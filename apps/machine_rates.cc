#include <algorithm>

#include "commands.h"
#include "io/machine.h"
#include "measure/disk.h"
#include "measure/linear_speed.h"

namespace yeoul {

void add_rate_options(CLI::App& command, RateArguments& rates) {
  const auto rate = [&](const char* name, double& value, const char* help) {
    command.add_option(name, value, help)->check(CLI::PositiveNumber)->type_name("RATE");
  };
  rate("--memory-gb-s", rates.memory_gb_s,
       "Assume that weights are read from memory at so many GB/s, instead of measuring it");
  rate("--compute-gflop-s", rates.compute_gflop_s, "The same for products, in GFLOP/s");
  rate("--disk-gb-s", rates.disk_gb_s, "The same for large reads from the checkpoint's disk");
  rate("--disk-reads-s", rates.disk_reads_s, "The same for reads of 4 KiB, so many a second");
}

Result<MachineRates> machine_rates(const RateArguments& given, Isa isa, int num_threads,
                                   const std::string& directory) {
  constexpr double kWeightBytesMax = 400e6;
  constexpr double kDiskSeconds = 0.6;
  MachineRates rates{1e9 * given.memory_gb_s, 1e9 * given.compute_gflop_s, 1e9 * given.disk_gb_s,
                     given.disk_reads_s};
  if (rates.read_bytes_per_s <= 0 || rates.products_per_s <= 0) {
    ThreadPool pool(num_threads);
    const LinearSpeed found = measure_linear(
        pool, isa, std::min(kWeightBytesMax, static_cast<double>(available_memory_bytes()) / 8));
    if (rates.read_bytes_per_s <= 0) rates.read_bytes_per_s = found.bytes_per_s;
    if (rates.products_per_s <= 0) rates.products_per_s = found.products_per_s;
  }
  if (rates.disk_bytes_per_s <= 0 || rates.disk_reads_per_s <= 0) {
    TRY_ASSIGN(const DiskFigures found, measure_disk(directory, kDiskSeconds));
    if (rates.disk_bytes_per_s <= 0) rates.disk_bytes_per_s = found.bytes_per_s;
    if (rates.disk_reads_per_s <= 0) rates.disk_reads_per_s = found.reads_per_s;
  }
  return rates;
}

}  // namespace yeoul
