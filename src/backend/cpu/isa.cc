#include "backend/cpu/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cpu/kernels.h"
#include "base/check.h"

namespace yeoul {
namespace {

bool machine_has(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
#if defined(__x86_64__)
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("f16c");
#else
      return false;
#endif
    case Isa::kAvx512:
#if defined(__x86_64__)
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
             __builtin_cpu_supports("avx512bf16");
#else
      return false;
#endif
    case Isa::kNeon:
#if defined(__aarch64__)
      return true;
#else
      return false;
#endif
  }
  return false;
}

const cpu::Kernels* kernels_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return &cpu::scalar_kernels();
    case Isa::kAvx2:
      return cpu::avx2_kernels();
    case Isa::kAvx512:
      return cpu::avx512_kernels();
    case Isa::kNeon:
      return cpu::neon_kernels();
  }
  return nullptr;
}

}  // namespace

const char* name_of(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kNeon:
      return "neon";
  }
  return "unknown";
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kScalar, Isa::kNeon, Isa::kAvx2, Isa::kAvx512}) {
    if (kernels_of(isa) != nullptr && machine_has(isa)) isas.push_back(isa);
  }
  return isas;
}

Isa best_isa() {
  return available_isas().back();
}

Result<Isa> parse_isa(std::string_view name) {
  std::vector<std::string_view> names = {"auto"};
  for (const Isa isa : available_isas()) {
    if (name == name_of(isa)) return isa;
    names.emplace_back(name_of(isa));
  }
  if (name == "auto") return best_isa();
  return fail(ErrorCode::kInvalidArgument, fmt::format("instruction set '{}': this machine runs {}",
                                                       name, fmt::join(names, ", ")));
}

namespace cpu {

const Kernels& kernels_for(Isa isa) {
  const Kernels* kernels = kernels_of(isa);
  CHECK(kernels != nullptr && machine_has(isa), "this machine cannot run {} kernels", name_of(isa));
  return *kernels;
}

}  // namespace cpu
}  // namespace yeoul
