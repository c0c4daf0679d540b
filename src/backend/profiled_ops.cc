#include "backend/profiled_ops.h"

#include <algorithm>
#include <chrono>

namespace yeoul {
namespace {

constexpr double kBf16Bytes = 2;

double number(int64_t n) {
  return static_cast<double>(n);
}

double elements(const Weight& w) {
  return number(w.rows) * number(w.cols);
}

// Codes and scales as stored.
double bytes_of(const Weight& w) {
  switch (w.format) {
    case WeightFormat::kBf16:
      return kBf16Bytes * elements(w);
    case WeightFormat::kFp8:
      return elements(w) + number((w.rows + 31) / 32 * ((w.cols + 31) / 32));
    case WeightFormat::kFp4:
      return elements(w) / 2 + elements(w) / 32;
  }
  return 0;
}

OpKind kind_of(const Weight& w) {
  return w.format == WeightFormat::kBf16  ? OpKind::kLinearBf16
         : w.format == WeightFormat::kFp8 ? OpKind::kLinearFp8
                                          : OpKind::kLinearFp4;
}

// Bytes of the residual streams of some rows.
double stream_bytes(RowIndex rows, int32_t copies, int64_t hidden) {
  return kBf16Bytes * number(std::ssize(rows)) * copies * number(hidden);
}

// Index keys that a row's query is scored against.
int64_t keys_scored(const IndexSelectArgs& a, int32_t row) {
  const auto at = static_cast<size_t>(row);
  const int64_t visible = (a.positions[at] + 1) / a.source.ratio;
  if (a.pool_mode != IndexSelectArgs::Pool::kUse) return visible;
  return std::min<int64_t>(visible, int64_t{a.num_pool[at]} * a.block_size);
}

}  // namespace

template <typename Args>
void ProfiledOps::timed(OpKind op, void (Ops::*call)(const Args&), const Args& args, Work work) {
  const TimePoint start = clock_.now();
  (inner_.*call)(args);
  const double seconds = std::chrono::duration<double>(clock_.now() - start).count();
  profile_.add(op, {1, seconds, work.bytes, work.operations});
}

void ProfiledOps::embed(const EmbedArgs& a) {
  const double row = kBf16Bytes * number(a.hidden);
  timed(OpKind::kEmbed, &Ops::embed, a, {number(std::ssize(a.tokens)) * row * (1 + a.copies), 0});
}

void ProfiledOps::mixes(const MixesArgs& a) {
  const double weights = (2.0 * a.copies + a.copies * a.copies) * a.copies * number(a.hidden);
  timed(OpKind::kMixes, &Ops::mixes, a,
        {4 * weights + stream_bytes(a.rows, a.copies, a.hidden),
         2 * weights * number(std::ssize(a.rows))});
}

void ProfiledOps::collapse(const CollapseArgs& a) {
  timed(OpKind::kCollapse, &Ops::collapse, a, {stream_bytes(a.rows, a.copies, a.hidden), 0});
}

void ProfiledOps::expand(const ExpandArgs& a) {
  timed(OpKind::kExpand, &Ops::expand, a, {2 * stream_bytes(a.rows, a.copies, a.hidden), 0});
}

void ProfiledOps::rms_norm(const RmsNormArgs& a) {
  timed(OpKind::kRmsNorm, &Ops::rms_norm, a,
        {2 * kBf16Bytes * number(a.num_rows) * number(a.width), 0});
}

void ProfiledOps::linear(const LinearArgs& a) {
  timed(kind_of(a.weight), &Ops::linear, a,
        {bytes_of(a.weight), 2 * elements(a.weight) * number(a.num_rows)});
}

void ProfiledOps::rope_table(const RopeTableArgs& a) {
  timed(OpKind::kRopeTable, &Ops::rope_table, a, {});
}

void ProfiledOps::rope(const RopeArgs& a) {
  timed(OpKind::kRope, &Ops::rope, a,
        {2 * kBf16Bytes * number(a.num_rows) * number(a.heads) * a.rope_dim, 0});
}

void ProfiledOps::stage_window(const StageWindowArgs& a) {
  timed(OpKind::kStageWindow, &Ops::stage_window, a,
        {number(std::ssize(a.rows)) * number(a.kv_view.layout.window_row_bytes()), 0});
}

void ProfiledOps::compress_pairs(const CompressPairsArgs& a) {
  timed(OpKind::kCompressPairs, &Ops::compress_pairs, a,
        {16 * number(std::ssize(a.pairs)) * number(a.width), 0});
}

void ProfiledOps::store_compressed(const StoreCompressedArgs& a) {
  timed(OpKind::kStoreCompressed, &Ops::store_compressed, a,
        {kBf16Bytes * number(std::ssize(a.places)) * number(a.head_dim + a.index_head_dim), 0});
}

// Rows of one item share their keys: those of its last row count as read.
void ProfiledOps::index_select(const IndexSelectArgs& a) {
  const KvLayout& layout = a.kv_view.layout;
  double scored = 0, read = 0;
  for (size_t i = 0; i < a.rows.size(); ++i) {
    const auto row = static_cast<size_t>(a.rows[i]);
    const double keys = number(keys_scored(a, a.rows[i]));
    scored += keys;
    const bool is_last =
        i + 1 == a.rows.size() || a.item_of[static_cast<size_t>(a.rows[i + 1])] != a.item_of[row];
    if (is_last) read += keys;
  }
  timed(OpKind::kIndexSelect, &Ops::index_select, a,
        {read * number(layout.key_code_bytes() + layout.key_scale_bytes()),
         2 * scored * a.heads * layout.index_head_dim});
}

void ProfiledOps::attention(const AttentionArgs& a) {
  const KvLayout& layout = a.kv_view.layout;
  double window = 0, selected = 0;
  for (const int32_t row : a.rows) {
    const auto at = static_cast<size_t>(row);
    window += number(std::min<int64_t>(a.positions[at] + 1, layout.window));
    if (a.source != nullptr) selected += a.num_selected[at];
  }
  timed(OpKind::kAttention, &Ops::attention, a,
        {window * number(layout.window_row_bytes()) +
             selected * number(layout.code_bytes() + layout.scale_bytes()),
         4 * (window + selected) * a.heads * layout.head_dim});
}

void ProfiledOps::route(const RouteArgs& a) {
  timed(OpKind::kRoute, &Ops::route, a,
        {bytes_of(a.gate), 2 * elements(a.gate) * number(a.num_rows)});
}

void ProfiledOps::expert(const ExpertArgs& a) {
  const ExpertWeights& e = a.expert;
  const bool is_routed = e.w1.format == WeightFormat::kFp4;
  timed(is_routed ? OpKind::kRoutedExpert : OpKind::kSharedExpert, &Ops::expert, a,
        {bytes_of(e.w1) + bytes_of(e.w2) + bytes_of(e.w3),
         2 * (elements(e.w1) + elements(e.w2) + elements(e.w3)) * number(std::ssize(a.rows))});
}

void ProfiledOps::combine(const CombineArgs& a) {
  timed(OpKind::kCombine, &Ops::combine, a,
        {kBf16Bytes * number(a.num_rows) * (a.num_chosen + 2) * number(a.hidden), 0});
}

void ProfiledOps::engram_decode(const EngramDecodeArgs& a) {
  timed(OpKind::kEngramDecode, &Ops::engram_decode, a,
        {(1 + kBf16Bytes) * number(a.num_rows) * number(a.width), 0});
}

void ProfiledOps::engram_inject(const EngramInjectArgs& a) {
  timed(
      OpKind::kEngramInject, &Ops::engram_inject, a,
      {stream_bytes(a.rows, a.copies + 1, a.hidden) + 2 * stream_bytes(a.rows, a.copies, a.hidden),
       0});
}

}  // namespace yeoul
