#include "backend/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

namespace yeoul {
namespace {

std::string of_roof(const OpCost& cost, const MachineRoofs& roofs) {
  const bool is_known = roofs.bytes_per_second > 0 && roofs.operations_per_second > 0;
  if (!is_known || cost.seconds <= 0 || (cost.bytes <= 0 && cost.operations <= 0)) return "-";
  const double memory = cost.bytes / roofs.bytes_per_second;
  const double compute = cost.operations / roofs.operations_per_second;
  return fmt::format("{:.0f}% {}", 100 * std::max(memory, compute) / cost.seconds,
                     memory >= compute ? 'm' : 'c');
}

// One step's part of a sum over all steps.
struct Row {
  std::string name;
  OpCost cost;
  std::string remark;
};

void print(std::string& text, const Row& row, double steps, double total,
           const MachineRoofs& roofs) {
  const double seconds = row.cost.seconds;
  const auto rate = [&](double amount) {
    return amount > 0 && seconds > 0 ? fmt::format("{:.1f}", amount / seconds / 1e9) : "-";
  };
  fmt::format_to(std::back_inserter(text),
                 "  {:<18}{:>8.1f}{:>11.3f}{:>7.1f}%{:>8}{:>9}{:>9}  {}\n", row.name,
                 static_cast<double>(row.cost.calls) / steps, 1e3 * seconds / steps,
                 total > 0 ? 100 * seconds / total : 0.0, rate(row.cost.bytes),
                 rate(row.cost.operations), of_roof(row.cost, roofs), row.remark);
}

void print_head(std::string& text, const char* what, const char* remark) {
  fmt::format_to(std::back_inserter(text), "  {:<18}{:>8}{:>11}{:>8}{:>8}{:>9}{:>9}  {}\n", what,
                 "calls", "ms a step", "share", "GB/s", "GFLOP/s", "of roof", remark);
}

std::vector<Row> by_op(const StepProfile& profile, StepKind kind) {
  std::vector<Row> rows;
  double in_ops = 0;
  for (size_t op = 0; op < kNumOpKinds; ++op) {
    Row row{std::string(name_of(static_cast<OpKind>(op))), {}, ""};
    for (int32_t layer = StepProfile::kNoLayer; layer < profile.num_layers(); ++layer) {
      row.cost += profile.cost(kind, layer, static_cast<OpKind>(op));
    }
    in_ops += row.cost.seconds;
    if (row.cost.calls > 0) rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.cost.seconds > b.cost.seconds; });
  OpCost outside;
  outside.seconds = profile.seconds(kind) - in_ops;
  rows.push_back({"outside of ops", outside, "reads waited for, grouping rows by expert"});
  return rows;
}

// The layer's whole time, with the bytes and operations of its ops.
Row layer_row(const StepProfile& profile, StepKind kind, int32_t layer) {
  Row row{layer == StepProfile::kNoLayer ? "before and after" : fmt::format("{}", layer), {}, ""};
  double longest = 0;
  for (size_t op = 0; op < kNumOpKinds; ++op) {
    const OpCost& cost = profile.cost(kind, layer, static_cast<OpKind>(op));
    row.cost += cost;
    if (cost.seconds <= longest) continue;
    longest = cost.seconds;
    row.remark = name_of(static_cast<OpKind>(op));
  }
  const double in_ops = row.cost.seconds;
  row.cost.seconds = profile.seconds(kind, layer);
  if (row.cost.seconds - in_ops > longest) row.remark = "outside of ops";
  return row;
}

void print_steps(std::string& text, const StepProfile& profile, StepKind kind,
                 const MachineRoofs& roofs) {
  const auto steps = static_cast<double>(profile.steps(kind));
  const double total = profile.seconds(kind);
  fmt::format_to(std::back_inserter(text), "{} {} steps, {} rows, {:.3f} ms a step\n",
                 profile.steps(kind), kind == StepKind::kDecode ? "decode" : "prefill",
                 profile.rows(kind), 1e3 * total / steps);
  print_head(text, "op", "");
  for (const Row& row : by_op(profile, kind)) print(text, row, steps, total, roofs);
  print_head(text, "layer", "most time in");
  for (int32_t layer = StepProfile::kNoLayer; layer < profile.num_layers(); ++layer) {
    print(text, layer_row(profile, kind, layer), steps, total, roofs);
  }
}

}  // namespace

std::string to_string(const StepProfile& profile, const MachineRoofs& roofs) {
  std::string text = "profile of forward passes";
  if (roofs.bytes_per_second > 0) {
    text += fmt::format("; roofs: memory {:.1f} GB/s, products {:.0f} GFLOP/s",
                        roofs.bytes_per_second / 1e9, roofs.operations_per_second / 1e9);
  }
  text += '\n';
  for (const StepKind kind : {StepKind::kPrefill, StepKind::kDecode}) {
    if (profile.steps(kind) > 0) print_steps(text, profile, kind, roofs);
  }
  return text;
}

}  // namespace yeoul
