#include "backend/step_profile.h"

#include <chrono>
#include <numeric>

#include "base/check.h"

namespace yeoul {

std::string_view name_of(OpKind op) {
  static constexpr std::string_view kNames[kNumOpKinds] = {
      "embed",        "mixes",          "collapse",         "expand",       "norm",
      "linear bf16",  "linear fp8",     "linear fp4",       "rope table",   "rope",
      "stage window", "compress pairs", "store compressed", "index select", "attention",
      "route",        "routed expert",  "shared expert",    "combine",      "engram decode",
      "engram inject"};
  return kNames[static_cast<size_t>(op)];
}

OpCost& OpCost::operator+=(const OpCost& other) {
  calls += other.calls;
  seconds += other.seconds;
  bytes += other.bytes;
  operations += other.operations;
  return *this;
}

size_t StepProfile::place(int32_t layer, OpKind op) {
  return static_cast<size_t>(layer + 1) * kNumOpKinds + static_cast<size_t>(op);
}

void StepProfile::reserve(int32_t num_layers) {
  num_layers_ = num_layers;
  for (Table& table : tables_) {
    table.seconds.assign(static_cast<size_t>(num_layers + 1), 0);
    table.costs.assign(static_cast<size_t>(num_layers + 1) * kNumOpKinds, {});
  }
}

void StepProfile::begin_step(StepKind kind, int64_t num_rows) {
  kind_ = kind;
  layer_ = kNoLayer;
  ++current().steps;
  current().rows += num_rows;
  entered_ = clock_.now();
}

void StepProfile::enter_layer(int32_t layer) {
  DCHECK(layer >= kNoLayer && layer < num_layers_);
  const TimePoint now = clock_.now();
  current().seconds[static_cast<size_t>(layer_ + 1)] +=
      std::chrono::duration<double>(now - entered_).count();
  layer_ = layer;
  entered_ = now;
}

void StepProfile::add(OpKind op, const OpCost& cost) {
  current().costs[place(layer_, op)] += cost;
}

void StepProfile::end_step() {
  enter_layer(kNoLayer);
}

double StepProfile::seconds(StepKind kind) const {
  const std::vector<double>& seconds = of(kind).seconds;
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

double StepProfile::seconds(StepKind kind, int32_t layer) const {
  return of(kind).seconds[static_cast<size_t>(layer + 1)];
}

const OpCost& StepProfile::cost(StepKind kind, int32_t layer, OpKind op) const {
  return of(kind).costs[place(layer, op)];
}

}  // namespace yeoul
