// mHC: mixes, collapse, expand, and the embedding that fills the streams (model.md
// sections 3.2, 3.3).

#include <algorithm>
#include <cmath>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/instruction_sets.h"
#include "backend/cpu/sums.h"
#include "backend/math_functions.h"

namespace yeoul::cpu {
namespace {

// C = softmax over k of each row j, + eps, columns normalised; then rows and columns in turn.
void sinkhorn(double* comb, int copies, int iters, double eps) {
  for (int j = 0; j < copies; ++j) {
    double* row = comb + j * copies;
    double largest = row[0], sum = 0;
    for (int k = 1; k < copies; ++k) largest = row[k] > largest ? row[k] : largest;
    for (int k = 0; k < copies; ++k) sum += row[k] = exp_double(row[k] - largest);
    for (int k = 0; k < copies; ++k) row[k] = row[k] / sum + eps;
  }
  const auto normalise_columns = [&] {
    for (int k = 0; k < copies; ++k) {
      double sum = 0;
      for (int j = 0; j < copies; ++j) sum += comb[j * copies + k];
      for (int j = 0; j < copies; ++j) comb[j * copies + k] /= sum + eps;
    }
  };
  normalise_columns();
  for (int i = 1; i < iters; ++i) {
    for (int j = 0; j < copies; ++j) {
      double sum = 0;
      for (int k = 0; k < copies; ++k) sum += comb[j * copies + k];
      for (int k = 0; k < copies; ++k) comb[j * copies + k] /= sum + eps;
    }
    normalise_columns();
  }
}

YEOUL_CLONES void widen_row(const Bf16* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(x[i]);
}

// out = bf16(sum_c pre[c] * x[c]).
template <typename Acc>
[[gnu::always_inline]] inline void collapse_loop(const Bf16* x, const float* pre, int64_t hidden,
                                                 int64_t copies, Bf16* out) {
  for (int64_t d = 0; d < hidden; ++d) {
    Acc sum = static_cast<Acc>(pre[0]) * static_cast<Acc>(to_float(x[d]));
    for (int64_t c = 1; c < copies; ++c) {
      sum = std::fma(static_cast<Acc>(pre[c]), static_cast<Acc>(to_float(x[c * hidden + d])), sum);
    }
    out[d] = to_bf16(static_cast<float>(sum));
  }
}

YEOUL_CLONES void collapse_row(const Bf16* x, const float* pre, int64_t hidden, int64_t copies,
                               float, Bf16* out) {
  // The release has four copies: a known number lets the compiler use vectors.
  if (copies == 4) return collapse_loop<float>(x, pre, hidden, 4, out);
  collapse_loop<float>(x, pre, hidden, copies, out);
}
YEOUL_CLONES void collapse_row(const Bf16* x, const float* pre, int64_t hidden, int64_t copies,
                               double, Bf16* out) {
  collapse_loop<double>(x, pre, hidden, copies, out);
}

// x[k] = bf16(post[k] * o + sum_j comb[j, k] * x[j]), in place.
template <typename Acc>
[[gnu::always_inline]] inline void expand_loop(const Bf16* o, const float* post, const float* comb,
                                               int64_t hidden, int64_t copies, Bf16* x) {
  for (int64_t d = 0; d < hidden; ++d) {
    const Acc added = static_cast<Acc>(to_float(o[d]));
    Acc old[kCopiesMax];
    for (int64_t j = 0; j < copies; ++j) old[j] = static_cast<Acc>(to_float(x[j * hidden + d]));
    for (int64_t k = 0; k < copies; ++k) {
      Acc sum = static_cast<Acc>(post[k]) * added;
      for (int64_t j = 0; j < copies; ++j) {
        sum = std::fma(static_cast<Acc>(comb[j * copies + k]), old[j], sum);
      }
      x[k * hidden + d] = to_bf16(static_cast<float>(sum));
    }
  }
}

YEOUL_CLONES void expand_row(const Bf16* o, const float* post, const float* comb, int64_t hidden,
                             int64_t copies, float, Bf16* x) {
  if (copies == 4) return expand_loop<float>(o, post, comb, hidden, 4, x);
  expand_loop<float>(o, post, comb, hidden, copies, x);
}
YEOUL_CLONES void expand_row(const Bf16* o, const float* post, const float* comb, int64_t hidden,
                             int64_t copies, double, Bf16* x) {
  expand_loop<double>(o, post, comb, hidden, copies, x);
}

}  // namespace

template <typename Acc>
void CpuOps<Acc>::embed(const EmbedArgs& args) {
  const auto hidden = static_cast<size_t>(args.hidden);
  for (size_t t = 0; t < args.tokens.size(); ++t) {
    const bool injected = args.embeds != nullptr && args.is_image[t] != 0;
    const Bf16* source =
        injected ? args.embeds + t * hidden : args.table + args.tokens[t] * args.hidden;
    for (size_t c = 0; c < static_cast<size_t>(args.copies); ++c) {
      std::copy_n(source, hidden,
                  args.streams + (t * static_cast<size_t>(args.copies) + c) * hidden);
    }
  }
}

// From a row's sums to its coefficients.
template <typename Acc>
void CpuOps<Acc>::finish_mixes(const MixesArgs& args, int64_t row, const Acc* sums) {
  const int copies = args.copies, outputs = 2 * copies + copies * copies;
  const Acc square = sums[outputs];
  const Acc width = static_cast<Acc>(args.hidden * copies);
  const Acc root = std::sqrt(square / width + static_cast<Acc>(args.norm_eps));
  double comb[kCopiesMax * kCopiesMax];
  for (int o = 0; o < outputs; ++o) {
    const int group = o < copies ? 0 : o < 2 * copies ? 1 : 2;
    const float scaled = static_cast<float>(sums[o] / root) * args.scale[group];
    const float m = scaled + args.base[o];
    if (group == 0) {
      args.pre[row * copies + o] = sigmoid(m) + args.hc_eps;
    } else if (group == 1) {
      args.post[row * copies + o - copies] = 2.0f * sigmoid(m);
    } else {
      comb[o - 2 * copies] = m;
    }
  }
  sinkhorn(comb, copies, args.sinkhorn_iters, static_cast<double>(args.hc_eps));
  for (int c = 0; c < copies * copies; ++c) {
    args.comb[row * copies * copies + c] = static_cast<float>(comb[c]);
  }
}

// Two rows share one reading of fn; few rows share out its outputs, each task widening the streams
// for itself.
template <typename Acc>
void CpuOps<Acc>::mixes(const MixesArgs& args) {
  const int64_t outputs = 2 * args.copies + args.copies * args.copies, stride = outputs + 1;
  const int64_t width = args.hidden * args.copies;
  const auto total = static_cast<int64_t>(args.rows.size());
  for (int64_t first = 0; first < total; first += kRowBlock) {
    const int64_t rows = std::min(kRowBlock, total - first), pairs = (rows + 1) / 2;
    const int64_t parts = pairs >= pool_.num_threads() ? 1 : pool_.num_threads();
    for_each(pairs * parts, 2 * width * outputs / parts, [&](int64_t task, Scratch& s) {
      const int64_t pair = task / parts, part = task % parts;
      const int64_t count = std::min<int64_t>(2, rows - 2 * pair);
      float* v = s.row.data();
      Acc* sums = mix_sums_.data() + 2 * pair * stride;
      for (int64_t r = 0; r < count; ++r) {
        const int64_t row = args.rows[static_cast<size_t>(first + 2 * pair + r)];
        widen_row(args.streams + row * width, width, v + r * width);
        if (part == 0) dot_wide(v + r * width, v + r * width, width, sums + r * stride + outputs);
      }
      const int64_t begin = part * outputs / parts, end = (part + 1) * outputs / parts;
      dots_wide(v, width, count, args.fn + begin * width, width, end - begin, width, sums + begin,
                stride);
    });
    for_each(rows, 20 * args.sinkhorn_iters * outputs, [&](int64_t r, Scratch&) {
      finish_mixes(args, args.rows[static_cast<size_t>(first + r)], mix_sums_.data() + r * stride);
    });
  }
}

template <typename Acc>
void CpuOps<Acc>::collapse(const CollapseArgs& args) {
  const int64_t hidden = args.hidden, copies = args.copies;
  for_each(static_cast<int64_t>(args.rows.size()), hidden * copies, [&](int64_t i, Scratch&) {
    const int64_t row = args.rows[static_cast<size_t>(i)];
    collapse_row(args.streams + row * copies * hidden, args.pre + row * copies, hidden, copies,
                 Acc{}, args.out + i * hidden);
  });
}

template <typename Acc>
void CpuOps<Acc>::expand(const ExpandArgs& args) {
  const int64_t hidden = args.hidden, copies = args.copies;
  for_each(
      static_cast<int64_t>(args.rows.size()), hidden * copies * copies, [&](int64_t i, Scratch&) {
        const int64_t row = args.rows[static_cast<size_t>(i)];
        expand_row(args.x + i * hidden, args.post + row * copies, args.comb + row * copies * copies,
                   hidden, copies, Acc{}, args.streams + row * copies * hidden);
      });
}

template void CpuOps<float>::embed(const EmbedArgs&);
template void CpuOps<double>::embed(const EmbedArgs&);
template void CpuOps<float>::mixes(const MixesArgs&);
template void CpuOps<double>::mixes(const MixesArgs&);
template void CpuOps<float>::collapse(const CollapseArgs&);
template void CpuOps<double>::collapse(const CollapseArgs&);
template void CpuOps<float>::expand(const ExpandArgs&);
template void CpuOps<double>::expand(const ExpandArgs&);

}  // namespace yeoul::cpu
