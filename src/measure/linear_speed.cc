#include "measure/linear_speed.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "measure/roofs.h"

namespace yeoul {
namespace speed {

ReleaseLinears::ReleaseLinears(WeightFormat format, double bytes_min) {
  using Shape = std::pair<int64_t, int64_t>;
  const std::vector<Shape> shapes =
      format == WeightFormat::kFp4
          ? std::vector<Shape>{{kExpertWidth, kHidden}, {kHidden, kExpertWidth}}
          : std::vector<Shape>{{1280, 5120}, {32768, 1280}, {1024, 4096}, {5120, 8192}};
  while (bytes_ < bytes_min) {
    for (const auto& [outputs, inputs] : shapes) {
      weights_.emplace_back(format, outputs, inputs, weights_.size());
      bytes_ += weights_.back().bytes();
      operations_ += 2.0 * static_cast<double>(outputs * inputs);
    }
  }
}

double ReleaseLinears::seconds(Ops& ops, int64_t rows, int passes) const {
  const std::vector<Bf16> x = random_rows(rows * 8192, 1);
  std::vector<Bf16> y(static_cast<size_t>(rows * 32768));
  double best = 1e9;
  for (int i = 0; i < passes; ++i) {
    const double start = now_seconds();
    for (const RandomWeight& w : weights_) {
      ops.linear({w.weight(), ActivationRule::kFp8, x.data(), w.weight().cols, rows, y.data(),
                  nullptr, w.weight().rows});
    }
    best = std::min(best, now_seconds() - start);
  }
  return best;
}

}  // namespace speed

LinearSpeed measure_linear(ThreadPool& pool, Isa isa, double num_bytes) {
  // As many rows as share one expansion of the weights.
  constexpr int64_t kRows = 128;
  const auto ops = make_cpu_ops(Accumulate::kFloat, pool, speed::release_limits(4096), isa);
  double bytes = 0, reading_s = 0, operations = 0, computing_s = 0;
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    {
      const speed::ReleaseLinears many(format, num_bytes / 2);
      bytes += many.bytes();
      reading_s += many.seconds(*ops, 1, 3);
    }
    const speed::ReleaseLinears once(format, 1);
    operations += once.operations(kRows);
    computing_s += once.seconds(*ops, kRows, 2);
  }
  return {bytes / reading_s, operations / computing_s};
}

}  // namespace yeoul
