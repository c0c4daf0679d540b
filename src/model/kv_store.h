#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/kv_view.h"
#include "base/result.h"
#include "checkpoint/config.h"
#include "io/anonymous_memory.h"
#include "model/cone.h"
#include "model/step_input.h"

namespace yeoul {

struct KvLimits {
  int32_t slots = 1;  // running sequences
  int32_t num_pages = 1;
  int32_t tokens_per_page = 256;
  int32_t rows_max = 1;   // rows of one step
  int32_t snapshots = 0;  // states kept for later sequences
};

// Compressed ids a slot can remember (config: n-grams up to 16).
inline constexpr size_t kHistoryMax = 16;

// What a slot holds outside its pages, as bytes: SequenceImage carries it.
struct SlotState {
  std::vector<uint8_t> pages;               // valid rows of every source, page order dissolved
  std::vector<uint8_t> window;              // per layer, oldest row first
  std::vector<int64_t> window_first_valid;  // per layer
  std::vector<uint8_t> partial_pairs;
};

// The bytes of the KV system: pages of compressed rows and index keys, window rings, partial pairs
// of the ratio-2 compressors, and the rows a step has staged but not committed. Page numbers come
// from the cache's accounting; slots from the engine. Thread-confined to the engine thread.
class KvStore {
 public:
  // kResourceExhausted when the pages cannot be reserved.
  static Result<std::unique_ptr<KvStore>> create(const ModelConfig& config, const KvLimits& limits);

  static KvLayout layout(const ModelConfig& config, int32_t tokens_per_page);
  // Bytes of everything the store allocates; pages and snapshots apart.
  static int64_t fixed_bytes(const ModelConfig& config, const KvLimits& limits);
  static int64_t page_bytes(const ModelConfig& config, int32_t tokens_per_page);
  static int64_t snapshot_bytes(const ModelConfig& config);

  const KvLimits& limits() const { return limits_; }
  const KvLayout& layout() const { return layout_; }
  // Layout of the source that layer `source_layer` is; the layer must be a KV source.
  const SourceLayout& source(int32_t source_layer) const;

  // `items` is borrowed by the view.
  KvView view(const ItemView* items);

  // Forgets what the slot held.
  void open_slot(int32_t slot);

  // First position whose window row `layer` can see from a step that starts at `position`, given
  // that the step stages window rows from `staged_begin` on.
  int64_t window_first(int32_t slot, int32_t layer, int64_t position, int64_t staged_begin) const;

  // Staged (c, s) of a step row, 2*D floats, for a ratio-2 source; and the slot's open pair.
  float* staged_pair(int32_t source_layer, int32_t step_row);
  const float* open_pair(int32_t slot, int32_t source_layer) const;

  // Compressed ids of the last tokens of the sequence, oldest first.
  std::span<const int32_t> history(int32_t slot) const;

  // Makes the first `num_accepted` rows of the item part of the sequence, for the item's layers.
  // compressed_ids: of the item's rows. Does not allocate.
  void commit(const ItemInput& item, const Cone& cone, int32_t num_accepted,
              std::span<const int32_t> compressed_ids, int32_t history_len) noexcept;

  // Snapshots: what a slot holds outside its pages, copied to and from storage that is there from
  // the start. A snapshot may be restored into any slot, any number of times, beside pages that
  // hold its tokens. Nothing here allocates.
  void save_snapshot(int32_t slot, int32_t snapshot) noexcept;
  void restore_snapshot(int32_t snapshot, int32_t slot);
  // By layer: first position whose window row the snapshot holds.
  std::span<const int64_t> snapshot_first_valid(int32_t snapshot) const;

  // The same as bytes, for the disk tier (version: PrefixUnit's). Rows: of the first num_tokens
  // positions of a page, nothing else that may lie there. read_*: kCorrupt when sizes or window
  // bounds do not fit this model; what was read until then is forgotten with the page or snapshot.
  int64_t rows_bytes(int64_t num_tokens) const;
  void append_rows(int32_t page, int64_t num_tokens, std::vector<uint8_t>& out) const;
  Result<void> read_rows(int32_t page, int64_t num_tokens, std::span<const uint8_t> bytes);
  static int64_t state_bytes_max(const ModelConfig& config);
  void append_snapshot(int32_t snapshot, int64_t length, std::vector<uint8_t>& out) const;
  Result<void> read_snapshot(int32_t snapshot, int64_t length, std::span<const uint8_t> bytes);

  // Copies what a page holds of its first `num_tokens` positions into another page.
  void copy_rows(int32_t from_page, int32_t to_page, int64_t num_tokens);

  // The committed state of a slot that holds `length` tokens, and back. restore: kCorrupt when
  // sizes do not fit this model.
  SlotState save(int32_t slot, std::span<const int32_t> pages, int64_t length) const;
  Result<void> restore(int32_t slot, std::span<const int32_t> pages, int64_t length,
                       const SlotState& state, std::span<const int32_t> history);

 private:
  KvStore(const ModelConfig& config, const KvLimits& limits, AnonymousMemory pages,
          AnonymousMemory snapshots);

  struct Slot {
    std::vector<int64_t> window_first;  // per layer; rows first .. end-1 are in the ring
    std::vector<int64_t> window_end;
    std::vector<int32_t> history;  // capacity reserved
  };
  uint8_t* page_bytes_at(int64_t offset) const {
    return reinterpret_cast<uint8_t*>(pages_.data()) + offset;
  }
  uint8_t* ring_row(int32_t slot, int32_t layer, int64_t position);
  const uint8_t* ring_row(int32_t slot, int32_t layer, int64_t position) const;
  void commit_window(const ItemInput& item, int32_t layer, int64_t staged_begin, int64_t end);
  size_t pair_source(int32_t source_layer) const;
  float* open_pair_at(int32_t slot, size_t pair_source);
  Slot make_slot() const;
  int64_t ring_bytes() const {  // of one slot
    return int64_t{layout_.num_layers} * layout_.window * layout_.window_row_bytes();
  }
  int64_t pair_bytes() const {  // of one slot
    return std::ssize(pair_layers_) * 2 * layout_.head_dim * int64_t{sizeof(float)};
  }
  uint8_t* snapshot_at(int32_t snapshot) const;
  uint8_t* snapshot_row(int32_t snapshot, int32_t layer, int64_t position) const;

  // Calls body(bytes at page place, size) for every array of every valid row range.
  template <typename Body>
  void for_each_span(std::span<const int32_t> pages, int64_t length, const Body& body) const;

  KvLimits limits_;
  KvLayout layout_;
  std::vector<SourceLayout> sources_;
  std::vector<int32_t> pair_layers_;  // ratio-2 sources
  AnonymousMemory pages_;
  AnonymousMemory snapshots_;  // each: a slot's ring, then its open pairs
  std::vector<uint8_t> ring_;
  std::vector<uint8_t> staged_;
  std::vector<float> staged_pairs_;  // [pair source][rows_max][2 D]
  std::vector<float> open_pairs_;    // [slot][pair source][2 D]
  std::vector<Slot> slots_;
  std::vector<Slot> snapshot_slots_;  // what a slot knows besides bytes, by snapshot
};

template <typename Body>
void KvStore::for_each_span(std::span<const int32_t> pages, int64_t length,
                            const Body& body) const {
  for (const SourceLayout& source : sources_) {
    const int64_t rows = length / source.ratio;
    for (int64_t first = 0; first < rows; first += source.rows_per_page) {
      const int64_t count = std::min<int64_t>(source.rows_per_page, rows - first);
      const int64_t page = pages[static_cast<size_t>(first / source.rows_per_page)];
      const int64_t base = page * layout_.page_bytes;
      body(base + source.codes_offset, count * layout_.code_bytes());
      body(base + source.scales_offset, count * layout_.scale_bytes());
      body(base + source.key_codes_offset, count * layout_.key_code_bytes());
      body(base + source.key_scales_offset, count * layout_.key_scale_bytes());
    }
  }
}

}  // namespace yeoul
