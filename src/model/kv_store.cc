#include "model/kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace yeoul {
namespace {

// Lays the sources of one page out, one after another; returns the page's bytes.
int64_t lay_out_sources(const ModelConfig& config, const KvLayout& layout,
                        std::vector<SourceLayout>* sources) {
  int64_t offset = 0;
  const auto take = [&](int64_t bytes) {
    const int64_t at = offset;
    offset += bytes;
    return at;
  };
  for (const int32_t layer : config.kv_source_layer_ids) {
    SourceLayout source;
    source.layer = layer;
    source.ratio = config.compress_ratios[static_cast<size_t>(layer)];
    source.rows_per_page = layout.tokens_per_page / source.ratio;
    source.codes_offset = take(source.rows_per_page * layout.code_bytes());
    source.scales_offset = take(source.rows_per_page * layout.scale_bytes());
    source.key_codes_offset = take(source.rows_per_page * layout.key_code_bytes());
    source.key_scales_offset = take(source.rows_per_page * layout.key_scale_bytes());
    if (sources != nullptr) sources->push_back(source);
  }
  return (offset + 63) / 64 * 64;
}

int64_t num_pair_sources(const ModelConfig& config) {
  return std::count_if(
      config.kv_source_layer_ids.begin(), config.kv_source_layer_ids.end(),
      [&](int32_t layer) { return config.compress_ratios[static_cast<size_t>(layer)] == 2; });
}

}  // namespace

KvLayout KvStore::layout(const ModelConfig& config, int32_t tokens_per_page) {
  KvLayout layout;
  layout.head_dim = config.head_dim;
  layout.index_head_dim = config.index_head_dim;
  layout.window = config.sliding_window;
  layout.num_layers = config.num_hidden_layers;
  layout.tokens_per_page = tokens_per_page;
  layout.page_bytes = lay_out_sources(config, layout, nullptr);
  return layout;
}

int64_t KvStore::page_bytes(const ModelConfig& config, int32_t tokens_per_page) {
  return layout(config, tokens_per_page).page_bytes;
}

int64_t KvStore::fixed_bytes(const ModelConfig& config, const KvLimits& limits) {
  const KvLayout layout = KvStore::layout(config, limits.tokens_per_page);
  const int64_t row = layout.window_row_bytes() * layout.num_layers;
  const int64_t pair = num_pair_sources(config) * 2 * layout.head_dim * int64_t{sizeof(float)};
  return limits.slots * (row * layout.window + pair) + limits.rows_max * (row + pair);
}

int64_t KvStore::snapshot_bytes(const ModelConfig& config) {
  const KvLayout layout = KvStore::layout(config, 2);
  return layout.window_row_bytes() * layout.num_layers * layout.window +
         num_pair_sources(config) * 2 * layout.head_dim * int64_t{sizeof(float)};
}

Result<std::unique_ptr<KvStore>> KvStore::create(const ModelConfig& config,
                                                 const KvLimits& limits) {
  const int64_t bytes = limits.num_pages * page_bytes(config, limits.tokens_per_page);
  TRY_ASSIGN(AnonymousMemory pages, AnonymousMemory::reserve(static_cast<uint64_t>(bytes)));
  const int64_t kept = limits.snapshots * snapshot_bytes(config);
  TRY_ASSIGN(AnonymousMemory snapshots, AnonymousMemory::reserve(static_cast<uint64_t>(kept)));
  return std::unique_ptr<KvStore>(
      new KvStore(config, limits, std::move(pages), std::move(snapshots)));
}

KvStore::KvStore(const ModelConfig& config, const KvLimits& limits, AnonymousMemory pages,
                 AnonymousMemory snapshots)
    : limits_(limits),
      layout_(layout(config, limits.tokens_per_page)),
      pages_(std::move(pages)),
      snapshots_(std::move(snapshots)) {
  CHECK(limits.tokens_per_page % 2 == 0);
  lay_out_sources(config, layout_, &sources_);
  for (const SourceLayout& source : sources_) {
    if (source.ratio == 2) pair_layers_.push_back(source.layer);
  }
  const auto size = [](int64_t n) { return static_cast<size_t>(n); };
  const int64_t row = layout_.window_row_bytes() * layout_.num_layers;
  ring_.resize(size(limits.slots * ring_bytes()));
  staged_.resize(size(limits.rows_max * row));
  staged_pairs_.resize(pair_layers_.size() * size(int64_t{limits.rows_max} * 2 * layout_.head_dim));
  open_pairs_.resize(pair_layers_.size() * size(int64_t{limits.slots} * 2 * layout_.head_dim));
  for (int32_t i = 0; i < limits.slots; ++i) slots_.push_back(make_slot());
  snapshot_slots_.reserve(size(limits.snapshots));
  for (int32_t i = 0; i < limits.snapshots; ++i) snapshot_slots_.push_back(make_slot());
}

KvStore::Slot KvStore::make_slot() const {
  Slot slot;
  slot.window_first.resize(static_cast<size_t>(layout_.num_layers));
  slot.window_end.resize(static_cast<size_t>(layout_.num_layers));
  slot.history.reserve(kHistoryMax);
  return slot;
}

const SourceLayout& KvStore::source(int32_t source_layer) const {
  for (const SourceLayout& source : sources_) {
    if (source.layer == source_layer) return source;
  }
  check_failed(__FILE__, __LINE__, "KV source", fmt::format("layer {}", source_layer));
}

KvView KvStore::view(const ItemView* items) {
  return {layout_, page_bytes_at(0), ring_.data(), staged_.data(), limits_.rows_max, items};
}

void KvStore::open_slot(int32_t index) {
  Slot& slot = slots_[static_cast<size_t>(index)];
  std::fill(slot.window_first.begin(), slot.window_first.end(), 0);
  std::fill(slot.window_end.begin(), slot.window_end.end(), 0);
  slot.history.clear();
}

uint8_t* KvStore::ring_row(int32_t slot, int32_t layer, int64_t position) {
  return ring_.data() + ((int64_t{slot} * layout_.num_layers + layer) * layout_.window +
                         position % layout_.window) *
                            layout_.window_row_bytes();
}

const uint8_t* KvStore::ring_row(int32_t slot, int32_t layer, int64_t position) const {
  return const_cast<KvStore*>(this)->ring_row(slot, layer, position);
}

int64_t KvStore::window_first(int32_t slot, int32_t layer, int64_t position,
                              int64_t staged_begin) const {
  const Slot& state = slots_[static_cast<size_t>(slot)];
  const auto l = static_cast<size_t>(layer);
  if (staged_begin > position) return staged_begin;  // rows of this step itself are left out
  return state.window_end[l] == position ? state.window_first[l] : position;
}

size_t KvStore::pair_source(int32_t source_layer) const {
  const auto at = std::find(pair_layers_.begin(), pair_layers_.end(), source_layer);
  CHECK(at != pair_layers_.end());
  return static_cast<size_t>(at - pair_layers_.begin());
}

float* KvStore::staged_pair(int32_t source_layer, int32_t step_row) {
  const size_t width = 2 * static_cast<size_t>(layout_.head_dim);
  return staged_pairs_.data() + (pair_source(source_layer) * static_cast<size_t>(limits_.rows_max) +
                                 static_cast<size_t>(step_row)) *
                                    width;
}

float* KvStore::open_pair_at(int32_t slot, size_t pair_source) {
  const size_t width = 2 * static_cast<size_t>(layout_.head_dim);
  return open_pairs_.data() +
         (static_cast<size_t>(slot) * pair_layers_.size() + pair_source) * width;
}

const float* KvStore::open_pair(int32_t slot, int32_t source_layer) const {
  return const_cast<KvStore*>(this)->open_pair_at(slot, pair_source(source_layer));
}

std::span<const int32_t> KvStore::history(int32_t slot) const {
  return slots_[static_cast<size_t>(slot)].history;
}

// Rows [staged_begin, end) of the item are staged; the ring keeps the last W of what is contiguous.
void KvStore::commit_window(const ItemInput& item, int32_t layer, int64_t staged_begin,
                            int64_t end) {
  Slot& slot = slots_[static_cast<size_t>(item.slot)];
  const auto l = static_cast<size_t>(layer);
  const int64_t begin = std::max(item.position, staged_begin);
  if (begin >= end) {  // this layer left all of them out
    slot.window_first[l] = slot.window_end[l] = end;
    return;
  }
  if (slot.window_end[l] != begin) slot.window_first[l] = begin;
  slot.window_end[l] = end;
  slot.window_first[l] = std::max(slot.window_first[l], end - layout_.window);
  const auto bytes = static_cast<size_t>(layout_.window_row_bytes());
  for (int64_t p = std::max(begin, end - layout_.window); p < end; ++p) {
    const int64_t row = item.first_row + (p - item.position);
    std::memcpy(
        ring_row(item.slot, layer, p),
        staged_.data() + (int64_t{layer} * limits_.rows_max + row) * layout_.window_row_bytes(),
        bytes);
  }
}

void KvStore::commit(const ItemInput& item, const Cone& cone, int32_t num_accepted,
                     std::span<const int32_t> compressed_ids, int32_t history_len) noexcept {
  if (num_accepted == 0) return;
  const int64_t end = item.position + num_accepted;
  for (int32_t layer = item.layer_begin; layer < item.layer_end; ++layer) {
    commit_window(item, layer, cone.window_begin(layer, item.cone_end), end);
  }
  for (size_t s = 0; s < pair_layers_.size(); ++s) {
    const int32_t layer = pair_layers_[s];
    if (layer < item.layer_begin || layer >= item.layer_end || end % 2 == 0) continue;
    const float* staged = staged_pair(layer, item.first_row + num_accepted - 1);
    std::copy_n(staged, 2 * layout_.head_dim, open_pair_at(item.slot, s));
  }
  if (item.layer_begin != 0) return;
  std::vector<int32_t>& history = slots_[static_cast<size_t>(item.slot)].history;
  for (const int32_t id : compressed_ids.first(static_cast<size_t>(num_accepted))) {
    if (history.size() == static_cast<size_t>(history_len)) history.erase(history.begin());
    if (history_len > 0) history.push_back(id);
  }
}

uint8_t* KvStore::snapshot_at(int32_t snapshot) const {
  CHECK(snapshot >= 0 && snapshot < limits_.snapshots, "snapshot {} of {}", snapshot,
        limits_.snapshots);
  return reinterpret_cast<uint8_t*>(snapshots_.data()) + snapshot * (ring_bytes() + pair_bytes());
}

void KvStore::save_snapshot(int32_t slot, int32_t snapshot) noexcept {
  const Slot& from = slots_[static_cast<size_t>(slot)];
  uint8_t* to = snapshot_at(snapshot);
  const auto layer_bytes = static_cast<size_t>(layout_.window * layout_.window_row_bytes());
  for (int32_t layer = 0; layer < layout_.num_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    if (from.window_first[l] == from.window_end[l]) continue;
    std::memcpy(to + l * layer_bytes, ring_row(slot, layer, 0), layer_bytes);
  }
  if (!pair_layers_.empty())
    std::memcpy(to + ring_bytes(), open_pair_at(slot, 0), static_cast<size_t>(pair_bytes()));
  snapshot_slots_[static_cast<size_t>(snapshot)] = from;
}

void KvStore::restore_snapshot(int32_t snapshot, int32_t slot) {
  const uint8_t* from = snapshot_at(snapshot);
  const Slot& kept = snapshot_slots_[static_cast<size_t>(snapshot)];
  const auto layer_bytes = static_cast<size_t>(layout_.window * layout_.window_row_bytes());
  for (int32_t layer = 0; layer < layout_.num_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    if (kept.window_first[l] == kept.window_end[l]) continue;
    std::memcpy(ring_row(slot, layer, 0), from + l * layer_bytes, layer_bytes);
  }
  if (!pair_layers_.empty())
    std::memcpy(open_pair_at(slot, 0), from + ring_bytes(), static_cast<size_t>(pair_bytes()));
  slots_[static_cast<size_t>(slot)] = kept;
}

std::span<const int64_t> KvStore::snapshot_first_valid(int32_t snapshot) const {
  return snapshot_slots_[static_cast<size_t>(snapshot)].window_first;
}

void KvStore::copy_rows(int32_t from_page, int32_t to_page, int64_t num_tokens) {
  const int32_t from[] = {from_page};
  const int64_t distance = (int64_t{to_page} - from_page) * layout_.page_bytes;
  for_each_span(from, num_tokens, [&](int64_t offset, int64_t bytes) {
    std::memcpy(page_bytes_at(offset + distance), page_bytes_at(offset),
                static_cast<size_t>(bytes));
  });
}

SlotState KvStore::save(int32_t slot, std::span<const int32_t> pages, int64_t length) const {
  SlotState state;
  for_each_span(pages, length, [&](int64_t offset, int64_t bytes) {
    const uint8_t* begin = page_bytes_at(offset);
    state.pages.insert(state.pages.end(), begin, begin + bytes);
  });
  const Slot& source = slots_[static_cast<size_t>(slot)];
  for (int32_t layer = 0; layer < layout_.num_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    state.window_first_valid.push_back(source.window_first[l]);
    for (int64_t p = source.window_first[l]; p < source.window_end[l]; ++p) {
      const uint8_t* row = ring_row(slot, layer, p);
      state.window.insert(state.window.end(), row, row + layout_.window_row_bytes());
    }
  }
  if (length % 2 != 0 && !pair_layers_.empty()) {
    const float* pairs = const_cast<KvStore*>(this)->open_pair_at(slot, 0);
    const auto* bytes = reinterpret_cast<const uint8_t*>(pairs);
    const size_t count = pair_layers_.size() * 2 * static_cast<size_t>(layout_.head_dim);
    state.partial_pairs.assign(bytes, bytes + count * sizeof(float));
  }
  return state;
}

Result<void> KvStore::restore(int32_t slot, std::span<const int32_t> pages, int64_t length,
                              const SlotState& state, std::span<const int32_t> history) {
  const auto wrong = [](const char* what, size_t expected, size_t found) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("sequence image: {} of {} bytes expected, {} found", what, expected, found));
  };
  int64_t page_len = 0;
  for_each_span(pages, length, [&](int64_t, int64_t bytes) { page_len += bytes; });
  if (state.pages.size() != static_cast<size_t>(page_len)) {
    return wrong("pages", static_cast<size_t>(page_len), state.pages.size());
  }
  if (state.window_first_valid.size() != static_cast<size_t>(layout_.num_layers)) {
    return wrong("layer list", static_cast<size_t>(layout_.num_layers),
                 state.window_first_valid.size());
  }
  int64_t window_rows = 0;
  for (const int64_t first : state.window_first_valid) {
    if (first < std::max<int64_t>(0, length - layout_.window) || first > length) {
      return fail(ErrorCode::kCorrupt,
                  fmt::format("sequence image: window starts at {} of {} tokens", first, length));
    }
    window_rows += length - first;
  }
  const auto window_len = static_cast<size_t>(window_rows * layout_.window_row_bytes());
  if (state.window.size() != window_len) return wrong("window", window_len, state.window.size());
  const size_t pair_len =
      length % 2 == 0 ? 0 : pair_layers_.size() * 2 * static_cast<size_t>(layout_.head_dim) * 4;
  if (state.partial_pairs.size() != pair_len) {
    return wrong("partial pairs", pair_len, state.partial_pairs.size());
  }

  size_t at = 0;
  for_each_span(pages, length, [&](int64_t offset, int64_t bytes) {
    std::memcpy(page_bytes_at(offset), state.pages.data() + at, static_cast<size_t>(bytes));
    at += static_cast<size_t>(bytes);
  });
  const uint8_t* row = state.window.data();
  Slot& target = slots_[static_cast<size_t>(slot)];
  for (int32_t layer = 0; layer < layout_.num_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    target.window_first[l] = state.window_first_valid[l];
    target.window_end[l] = length;
    for (int64_t p = target.window_first[l]; p < length; ++p) {
      std::memcpy(ring_row(slot, layer, p), row, static_cast<size_t>(layout_.window_row_bytes()));
      row += layout_.window_row_bytes();
    }
  }
  if (pair_len != 0) std::memcpy(open_pair_at(slot, 0), state.partial_pairs.data(), pair_len);
  CHECK(history.size() <= kHistoryMax);
  target.history.assign(history.begin(), history.end());
  return {};
}

}  // namespace yeoul
