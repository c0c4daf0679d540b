#include "backend/cpu/kernels_avx512.h"

namespace yeoul::cpu {

const Kernels* avx512_kernels() {
  static constexpr Kernels kernels{avx512::linear, avx512::load_operand, avx512::gate_up,
                                   avx512::attend, avx512::score_keys};
  return &kernels;
}

}  // namespace yeoul::cpu
