#include "onednn.h"

#if defined(YEOUL_ONEDNN)
#include <algorithm>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "measure/roofs.h"
#endif

namespace yeoul::speed {

#if defined(YEOUL_ONEDNN)
double onednn_bf16(int threads, int64_t rows, int64_t inputs, int64_t outputs) {
  // The library takes its threads from OpenMP.
  ::setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 0);
  using namespace dnnl;
  const engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  const auto bf16 = memory::data_type::bf16;
  const memory::desc x({rows, inputs}, bf16, memory::format_tag::ab);
  const memory::desc any({inputs, outputs}, bf16, memory::format_tag::any);
  const memory::desc y({rows, outputs}, bf16, memory::format_tag::ab);
  const matmul::primitive_desc product({x, any, y}, cpu);
  memory source(x, cpu), weights(product.weights_desc(), cpu), target(y, cpu);
  const matmul op(product);
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    const double start = now_seconds();
    op.execute(queue,
               {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DST, target}});
    queue.wait();
    best = std::max(best,
                    2.0 * static_cast<double>(rows * inputs * outputs) / (now_seconds() - start));
  }
  return best;
}
#else
double onednn_bf16(int, int64_t, int64_t, int64_t) {
  return 0;
}
#endif

}  // namespace yeoul::speed
