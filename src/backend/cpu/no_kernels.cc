// Instruction sets this build has no kernels for.

#include "backend/cpu/kernels.h"

namespace yeoul::cpu {

#if !defined(__x86_64__)
const Kernels* avx512_kernels() {
  return nullptr;
}
const Kernels* avx2_kernels() {
  return nullptr;
}
#endif
#if !defined(__aarch64__)
const Kernels* neon_kernels() {
  return nullptr;
}
#endif

}  // namespace yeoul::cpu
