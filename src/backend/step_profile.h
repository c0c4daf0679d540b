#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace yeoul {

// Operations of the model (ops.h) as a profile tells them apart: products by the form of their
// weights, because that decides their speed.
enum class OpKind : uint8_t {
  kEmbed,
  kMixes,
  kCollapse,
  kExpand,
  kRmsNorm,
  kLinearBf16,
  kLinearFp8,
  kLinearFp4,
  kRopeTable,
  kRope,
  kStageWindow,
  kCompressPairs,
  kStoreCompressed,
  kIndexSelect,
  kAttention,
  kRoute,
  kRoutedExpert,
  kSharedExpert,
  kCombine,
  kEngramDecode,
  kEngramInject,
};
inline constexpr size_t kNumOpKinds = static_cast<size_t>(OpKind::kEngramInject) + 1;
std::string_view name_of(OpKind op);

struct OpCost {
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;       // operands that lie in memory: weights, keys, residual streams
  double operations = 0;  // multiplications and additions of products and scores

  OpCost& operator+=(const OpCost& other);
};

// Steps whose items bring one row each, and the others.
enum class StepKind : uint8_t { kDecode, kPrefill };

// Where the time of forward passes goes: by kind of step, layer and operation. Forward says where
// it is, ProfiledOps (profiled_ops.h) what an operation cost. Nothing allocates after reserve().
// Thread-confined to the engine thread; read it when that has ended.
class StepProfile {
 public:
  static constexpr int32_t kNoLayer = -1;  // embedding, Engram reads, head

  // `clock` is borrowed.
  explicit StepProfile(const Clock& clock) : clock_(clock) {}

  void reserve(int32_t num_layers);
  void begin_step(StepKind kind, int64_t num_rows);
  void enter_layer(int32_t layer);
  void add(OpKind op, const OpCost& cost);
  void end_step();

  int32_t num_layers() const { return num_layers_; }
  int64_t steps(StepKind kind) const { return of(kind).steps; }
  int64_t rows(StepKind kind) const { return of(kind).rows; }
  double seconds(StepKind kind) const;
  // One layer or kNoLayer: all of its time, and what one operation had of it.
  double seconds(StepKind kind, int32_t layer) const;
  const OpCost& cost(StepKind kind, int32_t layer, OpKind op) const;

 private:
  struct Table {
    int64_t steps = 0;
    int64_t rows = 0;
    std::vector<double> seconds;  // [layers + 1], kNoLayer first
    std::vector<OpCost> costs;    // [layers + 1][ops]
  };
  const Table& of(StepKind kind) const { return tables_[static_cast<size_t>(kind)]; }
  Table& current() { return tables_[static_cast<size_t>(kind_)]; }
  static size_t place(int32_t layer, OpKind op);

  const Clock& clock_;
  int32_t num_layers_ = 0;
  Table tables_[2];
  StepKind kind_ = StepKind::kDecode;
  int32_t layer_ = kNoLayer;
  TimePoint entered_{};
};

}  // namespace yeoul
