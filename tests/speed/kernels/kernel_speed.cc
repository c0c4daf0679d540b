// How close the kernels come to what the machine can do.
//   kernel_speed [NAME...]                        JSON lines, all rows without a name
//   kernel_speed profile ISA ROWS CONTEXT [THREADS]   what each operation of a layer costs

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "measure/linear_speed.h"
#include "measure/release_layer.h"
#include "measure/roofs.h"
#include "onednn.h"
#include "op_profile.h"
#include "speed/claim_row.h"

namespace yeoul::speed {
namespace {

constexpr int kThreads = 2;

constexpr double kDramBytes = 600e6;  // beyond any last-level cache

void gemv(std::string_view name, WeightFormat format) {
  ThreadPool pool(kThreads);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, release_limits(4096));
  const auto scalar = make_cpu_ops(Accumulate::kFloat, pool, release_limits(4096), Isa::kScalar);
  ReleaseLinears layers(format, kDramBytes);
  ReleaseLinears small(format, 60e6);
  std::vector<uint8_t> memory(static_cast<size_t>(kDramBytes), uint8_t{1});
  double share = 0, roof = 0, rate = 0;
  // Alternated, so that a busy machine slows both.
  for (int i = 0; i < 3; ++i) {
    roof = std::max(roof, read_roof(pool, memory.data(), memory.size()));
    rate = std::max(rate, layers.bytes() / layers.seconds(*ops, 1, 3));
  }
  share = rate / roof;
  const double slow = small.bytes() / small.seconds(*scalar, 1, 1);
  print_row(
      name, share,
      fmt::format("of the read roof: {:.1f} of {:.1f} GB/s, 2 threads, {}; scalar path {:.2f} GB/s",
                  rate / 1e9, roof / 1e9, name_of(best_isa()), slow / 1e9),
      ">= 0.85", share >= 0.85);
}

void gemm(std::string_view name, WeightFormat format) {
  ThreadPool pool(kThreads);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, release_limits(4096));
  const auto scalar = make_cpu_ops(Accumulate::kFloat, pool, release_limits(4096), Isa::kScalar);
  ReleaseLinears layers(format, 1);
  constexpr int64_t kRows = 512;
  double rate = 0, peak = 0, library = 0;
  for (int i = 0; i < 3; ++i) {
    peak = std::max(peak, bf16_peak(pool));
    library = std::max(library, onednn_bf16(kThreads, kRows, 5120, 4096));
    rate = std::max(rate, layers.operations(kRows) / layers.seconds(*ops, kRows, 2));
  }
  const double slow = layers.operations(16) / layers.seconds(*scalar, 16, 1);
  // Without the library: its efficiency on the instruction's peak as measured elsewhere, 0.87.
  const double roof = library > 0 ? library : 0.87 * peak;
  print_row(name, rate / roof,
            fmt::format("of {} ({:.0f} of {:.0f} GFLOP/s; peak {:.0f}), 512 rows, 2 threads, {}; "
                        "scalar path {:.1f}",
                        library > 0 ? "oneDNN bf16" : "0.87 of the instruction's peak", rate / 1e9,
                        roof / 1e9, peak / 1e9, name_of(best_isa()), slow / 1e9),
            ">= 0.8", rate / roof >= 0.8);
}

void sixteen_rows() {
  ThreadPool pool(kThreads);
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, release_limits(4096));
  ReleaseLinears layers(WeightFormat::kFp8, kDramBytes);
  double one = 1e9, sixteen = 1e9, peak = 0;
  for (int i = 0; i < 3; ++i) {
    one = std::min(one, layers.seconds(*ops, 1, 2));
    sixteen = std::min(sixteen, layers.seconds(*ops, 16, 2));
    peak = std::max(peak, bf16_peak(pool));
  }
  const double ratio = 16 * one / sixteen;
  const double roof = std::min(16.0, peak / (layers.operations(1) / one));
  print_row("gemm_16rows_fp8", ratio,
            fmt::format("times the rate of one row; roof {:.1f}, 2 threads, {}", roof,
                        name_of(best_isa())),
            ">= 3.5", ratio >= 3.5);
}

// A region that both threads must enter: each of its two tasks waits for the other to begin.
void fork_join() {
  ThreadPool pool(kThreads);
  const double seconds = fork_join_seconds(pool);
  print_row("fork_join", seconds * 1e6, "us for a region that both of 2 threads enter", "<= 3",
            seconds <= 3e-6);
}

// One query over a million keys, 71 MB: scores, pool and the best 512.
void index_million() {
  constexpr int64_t kKeys = 1 << 20;
  ThreadPool pool(kThreads);
  const double seconds = index_seconds(pool, best_isa(), kKeys);
  const double slow = index_seconds(pool, Isa::kScalar, kKeys / 64) * 64;
  std::vector<uint8_t> memory(static_cast<size_t>(kDramBytes), uint8_t{1});
  const double bytes = kKeys * 68.0, operations = 2.0 * kKeys * kIndexHeads * kIndexDim;
  const double reading = bytes / read_roof(pool, memory.data(), memory.size());
  const double peak = int8_peak(pool);
  const double computing = peak > 0 ? operations / peak : 0;
  const double share = std::max(reading, computing) / seconds;
  print_row("index_1m", share,
            fmt::format("of the {}: {:.1f} ms of {:.1f}, 2 threads, {}; scalar path {:.0f} ms",
                        computing > reading ? "integer-dot peak" : "read roof", seconds * 1e3,
                        std::max(reading, computing) * 1e3, name_of(best_isa()), slow * 1e3),
            ">= 0.7", share >= 0.7);
}

struct Measurement {
  std::string_view name;
  void (*run)();
};

const Measurement kMeasurements[] = {
    {"gemv_fp4", [] { gemv("gemv_fp4", WeightFormat::kFp4); }},
    {"gemv_fp8", [] { gemv("gemv_fp8", WeightFormat::kFp8); }},
    {"gemm_fp4", [] { gemm("gemm_fp4", WeightFormat::kFp4); }},
    {"gemm_fp8", [] { gemm("gemm_fp8", WeightFormat::kFp8); }},
    {"gemm_16rows_fp8", sixteen_rows},
    {"index_1m", index_million},
    {"fork_join", fork_join},
};

}  // namespace
}  // namespace yeoul::speed

int main(int argc, char** argv) {
  using namespace yeoul;
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  if (wanted.size() >= 4 && wanted[0] == "profile") {
    const Result<Isa> isa = parse_isa(wanted[1]);
    if (isa) {
      ThreadPool pool(wanted.size() > 4 ? std::atoi(argv[5]) : speed::kThreads);
      speed::print_op_profile(pool, *isa, std::atoll(argv[3]), std::atoll(argv[4]));
      return 0;
    }
  }
  size_t found = 0;
  for (const speed::Measurement& m : speed::kMeasurements) {
    const bool named = std::find(wanted.begin(), wanted.end(), m.name) != wanted.end();
    found += named ? 1 : 0;
    if (wanted.empty() || named) m.run();
  }
  if (found == wanted.size()) return 0;
  fmt::print(stderr, "usage: {} [NAME...] | profile ISA ROWS CONTEXT [THREADS]\n", argv[0]);
  return 2;
}
