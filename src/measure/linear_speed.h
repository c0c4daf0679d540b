#pragma once

#include <deque>

#include "backend/cpu/isa.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ops.h"
#include "measure/release_layer.h"

namespace yeoul {

// What the engine's own linear layers reach, at the widths of the release, FP8 and FP4 together.
struct LinearSpeed {
  double bytes_per_s = 0;     // weights at one row
  double products_per_s = 0;  // multiplications and additions at many rows
};
// Makes up `num_bytes` of weights, more than the caches hold for a figure of the memory.
LinearSpeed measure_linear(ThreadPool& pool, Isa isa, double num_bytes);

namespace speed {

// Linear layers of the release in one format, again and again until there are `bytes_min`.
class ReleaseLinears {
 public:
  ReleaseLinears(WeightFormat format, double bytes_min);

  // Seconds of one pass over all with `rows` rows, the best of `passes`.
  double seconds(Ops& ops, int64_t rows, int passes) const;
  double bytes() const { return bytes_; }
  double operations(int64_t rows) const { return operations_ * static_cast<double>(rows); }

 private:
  std::deque<RandomWeight> weights_;
  double bytes_ = 0, operations_ = 0;
};

}  // namespace speed
}  // namespace yeoul
