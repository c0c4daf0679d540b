#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace yeoul {

// Instruction sets the float path has kernels for. All give the same bits.
enum class Isa : uint8_t {
  kScalar,  // the specification in plain loops
  kAvx2,    // AVX2, FMA, F16C
  kAvx512,  // AVX-512 F, BW, DQ, VL, VBMI, VNNI, BF16
  kNeon,    // aarch64
};

const char* name_of(Isa isa);

// What this machine and this build can run, slowest first; never empty.
std::vector<Isa> available_isas();
Isa best_isa();

// "auto", or one of the names; refuses what this machine cannot run.
Result<Isa> parse_isa(std::string_view name);

namespace cpu {
struct Kernels;
// Those of `isa`, which the machine must have.
const Kernels& kernels_for(Isa isa);
}  // namespace cpu

}  // namespace yeoul
