#include "scheduler/step_cost.h"

#include <algorithm>
#include <span>

namespace yeoul {

namespace {

// Of a list that is not empty; reorders it.
double median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void StepCost::observe(const StepLoad& load, double seconds) {
  Samples& samples = load.prefill_tokens > 0 ? with_prompts_ : decode_only_;
  samples.add({load, seconds});
}

StepCost::Line StepCost::decode_line() const {
  const size_t count = decode_only_.size();
  if (count == 0) return {};
  std::array<double, kWindow*(kWindow - 1) / 2> slopes;
  size_t num_slopes = 0;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j) {
      const int32_t rows = decode_only_[i].load.decode_rows - decode_only_[j].load.decode_rows;
      if (rows != 0)
        slopes[num_slopes++] = (decode_only_[i].seconds - decode_only_[j].seconds) / rows;
    }
  Line line;
  if (num_slopes > 0) line.each = std::max(0.0, median(std::span(slopes).first(num_slopes)));
  std::array<double, kWindow> rests;
  for (size_t i = 0; i < count; ++i)
    rests[i] = decode_only_[i].seconds - line.each * decode_only_[i].load.decode_rows;
  line.fixed = std::max(0.0, median(std::span(rests).first(count)));
  return line;
}

double StepCost::decode_seconds(int32_t rows) const {
  const Line line = decode_line();
  return line.fixed + line.each * rows;
}

double StepCost::token_seconds() const {
  const size_t count = with_prompts_.size();
  if (count == 0) return 0;
  const Line line = decode_line();
  struct Each {
    double seconds;
    int64_t weight;
  };
  std::array<Each, kWindow> list;
  int64_t weight = 0;
  for (size_t i = 0; i < count; ++i) {
    const StepLoad& load = with_prompts_[i].load;
    const double rest = with_prompts_[i].seconds - line.fixed - line.each * load.decode_rows;
    list[i] = {std::max(0.0, rest) / load.prefill_tokens, load.prefill_tokens};
    weight += load.prefill_tokens;
  }
  const std::span<Each> each = std::span(list).first(count);
  std::ranges::sort(each, {}, &Each::seconds);
  for (int64_t below = 0; const Each& sample : each) {
    below += sample.weight;
    if (2 * below > weight) return sample.seconds;
  }
  return each.back().seconds;
}

int32_t StepCost::prefill_tokens_max(int32_t decode_rows, double target_s) const {
  if (with_prompts_.size() == 0) return kFirstChunk;
  const double decode = decode_seconds(decode_rows);
  const double each = token_seconds();
  const double room = target_s * kTargetShare - decode;
  const double used = room >= each * kChunkMin ? room : decode;
  int32_t largest = 0;
  for (size_t i = 0; i < with_prompts_.size(); ++i)
    largest = std::max(largest, with_prompts_[i].load.prefill_tokens);
  const double most = 2.0 * largest;
  return std::max(kChunkMin, static_cast<int32_t>(used >= each * most ? most : used / each));
}

}  // namespace yeoul
