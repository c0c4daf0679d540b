// Norms, rotary embedding and the encoders of KV rows (model.md sections 3.1, 3.4, 3.5).

#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/instruction_sets.h"
#include "backend/cpu/sums.h"
#include "backend/math_functions.h"
#include "tensor/formats/kv_rows.h"

namespace yeoul::cpu {

namespace {

YEOUL_CLONES void widen(const Bf16* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(x[i]);
}

template <typename Acc>
[[gnu::always_inline]] inline void normalise_loop(const float* x, Acc root, const Bf16* weight,
                                                  int64_t n, Bf16* out) {
  for (int64_t i = 0; i < n; ++i) {
    const Acc y = static_cast<Acc>(to_float(weight[i])) * (static_cast<Acc>(x[i]) / root);
    out[i] = to_bf16(static_cast<float>(y));
  }
}
YEOUL_CLONES void normalise(const float* x, float root, const Bf16* weight, int64_t n, Bf16* out) {
  normalise_loop(x, root, weight, n, out);
}
YEOUL_CLONES void normalise(const float* x, double root, const Bf16* weight, int64_t n, Bf16* out) {
  normalise_loop(x, root, weight, n, out);
}

}  // namespace

template <typename Acc>
void CpuOps<Acc>::rms_norm(const RmsNormArgs& args) {
  const int64_t width = args.width;
  for_each(args.num_rows, 4 * width, [&](int64_t r, Scratch& scratch) {
    float* values = scratch.row.data();
    widen(args.x + r * width, width, values);
    Acc square = 0;
    dot_wide(values, values, width, &square);
    const Acc root = std::sqrt(square / static_cast<Acc>(width) + static_cast<Acc>(args.eps));
    normalise(values, root, args.weight, width, args.out + r * width);
  });
}

template <typename Acc>
void CpuOps<Acc>::rope_table(const RopeTableArgs& args) {
  const auto half = args.frequencies.size();
  for (size_t i = 0; i < args.positions.size(); ++i) {
    for (size_t f = 0; f < half; ++f) {
      const float angle = static_cast<float>(args.positions[i]) * args.frequencies[f];
      double sine = 0, cosine = 0;
      sincos_double(angle, &sine, &cosine);
      args.cosine[i * half + f] = static_cast<float>(cosine);
      args.sine[i * half + f] = static_cast<float>(sine);
    }
  }
}

template <typename Acc>
void CpuOps<Acc>::rope(const RopeArgs& args) {
  const int64_t half = args.rope_dim / 2;
  for_each(args.num_rows, args.heads * args.rope_dim, [&](int64_t i, Scratch&) {
    const int64_t row = args.rows[static_cast<size_t>(i)];
    for (int64_t h = 0; h < args.heads; ++h) {
      Bf16* tail = args.x + (i * args.heads + h + 1) * args.width - args.rope_dim;
      for (int64_t f = 0; f < half; ++f) {
        const float cosine = args.cosine[row * half + f];
        const float sine = args.inverse ? -args.sine[row * half + f] : args.sine[row * half + f];
        const float a = to_float(tail[2 * f]), b = to_float(tail[2 * f + 1]);
        tail[2 * f] = to_bf16(a * cosine - b * sine);
        tail[2 * f + 1] = to_bf16(a * sine + b * cosine);
      }
    }
  });
}

template <typename Acc>
void CpuOps<Acc>::stage_window(const StageWindowArgs& args) {
  const int64_t width = args.kv_view.layout.head_dim;
  for_each(static_cast<int64_t>(args.rows.size()), 8 * width, [&](int64_t i, Scratch& scratch) {
    float* values = scratch.row.data();
    for (int64_t d = 0; d < width; ++d) values[d] = to_float(args.kv[i * width + d]);
    uint8_t* place = args.kv_view.staged_row(args.layer, args.rows[static_cast<size_t>(i)]);
    encode_fp8_row({values, static_cast<size_t>(width)}, {place, place + width});
  });
}

template <typename Acc>
void CpuOps<Acc>::compress_pairs(const CompressPairsArgs& args) {
  for_each(static_cast<int64_t>(args.pairs.size()), 16 * args.width, [&](int64_t i, Scratch&) {
    const CompressPair& pair = args.pairs[static_cast<size_t>(i)];
    for (int64_t d = 0; d < args.width; ++d) {
      const float largest = pair.s0[d] > pair.s1[d] ? pair.s0[d] : pair.s1[d];
      const Acc e0 = static_cast<Acc>(exp_double(pair.s0[d] - largest));
      const Acc e1 = static_cast<Acc>(exp_double(pair.s1[d] - largest));
      const Acc sum = e0 + e1;
      const Acc pooled =
          e0 / sum * static_cast<Acc>(pair.c0[d]) + e1 / sum * static_cast<Acc>(pair.c1[d]);
      args.out[i * args.width + d] = to_bf16(static_cast<float>(pooled));
    }
  });
}

template <typename Acc>
void CpuOps<Acc>::store_compressed(const StoreCompressedArgs& args) {
  const int64_t width = args.head_dim, key_width = args.index_head_dim;
  for_each(static_cast<int64_t>(args.places.size()), 8 * (width + key_width),
           [&](int64_t i, Scratch& scratch) {
             const CompressedRowPlace& place = args.places[static_cast<size_t>(i)];
             float* values = scratch.row.data();
             for (int64_t d = 0; d < width; ++d) values[d] = to_float(args.latents[i * width + d]);
             encode_compressed_row({values, static_cast<size_t>(width)}, place.codes, place.scales);
             for (int64_t d = 0; d < key_width; ++d) {
               values[d] = to_float(args.keys[i * key_width + d]);
             }
             encode_index_row({values, static_cast<size_t>(key_width)}, place.key_codes,
                              place.key_scales);
           });
}

template void CpuOps<float>::rms_norm(const RmsNormArgs&);
template void CpuOps<double>::rms_norm(const RmsNormArgs&);
template void CpuOps<float>::rope_table(const RopeTableArgs&);
template void CpuOps<double>::rope_table(const RopeTableArgs&);
template void CpuOps<float>::rope(const RopeArgs&);
template void CpuOps<double>::rope(const RopeArgs&);
template void CpuOps<float>::stage_window(const StageWindowArgs&);
template void CpuOps<double>::stage_window(const StageWindowArgs&);
template void CpuOps<float>::compress_pairs(const CompressPairsArgs&);
template void CpuOps<double>::compress_pairs(const CompressPairsArgs&);
template void CpuOps<float>::store_compressed(const StoreCompressedArgs&);
template void CpuOps<double>::store_compressed(const StoreCompressedArgs&);

}  // namespace yeoul::cpu
