// Engram rows and their gated injection (model.md section 4.3).

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/sums.h"
#include "backend/math_functions.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {

template <typename Acc>
void CpuOps<Acc>::engram_decode(const EngramDecodeArgs& args) {
  for_each(args.num_rows, 2 * args.width, [&](int64_t r, Scratch& scratch) {
    float* values = scratch.row.data();
    decode_fp8_row(args.codes + r * args.width, args.scales + r * (args.width / kFp8Group),
                   {values, static_cast<size_t>(args.width)});
    for (int64_t i = 0; i < args.width; ++i) args.out[r * args.width + i] = to_bf16(values[i]);
  });
}

template <typename Acc>
void CpuOps<Acc>::engram_inject(const EngramInjectArgs& args) {
  const int64_t hidden = args.hidden, copies = args.copies;
  const Acc eps = static_cast<Acc>(args.eps);
  const Acc count = static_cast<Acc>(hidden);
  for_each(static_cast<int64_t>(args.rows.size()), 4 * copies * hidden, [&](int64_t i, Scratch& s) {
    const int64_t row = args.rows[static_cast<size_t>(i)];
    const Bf16* key = args.kv + i * (copies + 1) * hidden;
    const Bf16* value = key + copies * hidden;
    float* a = s.row.data();
    float* b = a + hidden;
    for (int64_t c = 0; c < copies; ++c) {
      Bf16* x = args.streams + (row * copies + c) * hidden;
      Acc x_square = 0, k_square = 0, product = 0;
      for (int64_t d = 0; d < hidden; ++d) a[d] = to_float(x[d]);
      dot_wide(a, a, hidden, &x_square);
      for (int64_t d = 0; d < hidden; ++d) b[d] = to_float(key[c * hidden + d]);
      dot_wide(b, b, hidden, &k_square);
      // Three BF16 factors have 24 significant bits: a stays exact.
      for (int64_t d = 0; d < hidden; ++d) {
        a[d] *= to_float(args.q_weight[c * hidden + d]) * to_float(args.k_weight[c * hidden + d]);
      }
      dot_wide(a, b, hidden, &product);
      const Acc norms = (x_square / count + eps) * (k_square / count + eps);
      const float g = static_cast<float>(product / std::sqrt(norms) / std::sqrt(count));
      const float root = std::sqrt(std::max(std::fabs(g), 1e-6f));
      const float gate = args.is_image[row] != 0 ? 0.0f : sigmoid(std::copysign(root, g));
      if (args.gate_out != nullptr) args.gate_out[i * copies + c] = gate;
      for (int64_t d = 0; d < hidden; ++d) {
        const Acc sum = std::fma(static_cast<Acc>(gate), static_cast<Acc>(to_float(value[d])),
                                 static_cast<Acc>(to_float(x[d])));
        x[d] = to_bf16(static_cast<float>(sum));
      }
    }
  });
}

template void CpuOps<float>::engram_decode(const EngramDecodeArgs&);
template void CpuOps<double>::engram_decode(const EngramDecodeArgs&);
template void CpuOps<float>::engram_inject(const EngramInjectArgs&);
template void CpuOps<double>::engram_inject(const EngramInjectArgs&);

}  // namespace yeoul::cpu
