#include "backend/weight.h"

#include "base/check.h"

namespace yeoul {

Weight row_range(const Weight& weight, int64_t first, int64_t count) {
  CHECK(first >= 0 && count >= 0 && first + count <= weight.rows);
  Weight part = weight;
  part.rows = count;
  switch (weight.format) {
    case WeightFormat::kBf16:
      part.data += first * weight.cols * 2;
      break;
    case WeightFormat::kFp8:
      CHECK(first % 32 == 0, "rows of an FP8 matrix split at multiples of 32, not at {}", first);
      part.data += first * weight.cols;
      part.scales += first / 32 * ((weight.cols + 31) / 32);
      break;
    case WeightFormat::kFp4:
      part.data += first * weight.cols / 2;
      part.scales += first * (weight.cols / 32);
      break;
  }
  return part;
}

}  // namespace yeoul
