// Instruction sets this build has no kernels for.

#include "backend/cpu/kernels.h"

namespace yeoul::cpu {

#if !defined(__x86_64__)
const Kernels* avx512_kernels() {
  return nullptr;
}
#endif
const Kernels* avx2_kernels() {
  return nullptr;
}
const Kernels* neon_kernels() {
  return nullptr;
}

}  // namespace yeoul::cpu
