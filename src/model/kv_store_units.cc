// KvStore, rows and snapshots as bytes for the disk tier.

#include <fmt/format.h>

#include <cstring>

#include "base/check.h"
#include "model/kv_store.h"

namespace yeoul {

namespace {

// By layer: first position in the window and the one behind the last (i64 each).
constexpr int64_t kBoundsBytes = 2 * int64_t{sizeof(int64_t)};

tl::unexpected<Error> wrong(const char* what, int64_t expected, int64_t found) {
  return fail(ErrorCode::kCorrupt,
              fmt::format("KV state: {}: {} expected, {} found", what, expected, found));
}

void append(const void* data, int64_t num_bytes, std::vector<uint8_t>& out) {
  const auto* begin = static_cast<const uint8_t*>(data);
  out.insert(out.end(), begin, begin + num_bytes);
}

// Takes bytes from the front; ok() is false once more were asked for than there are.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : rest_(bytes) {}
  void copy(void* to, int64_t num_bytes) {
    if (num_bytes > left()) {
      is_ok_ = false;
      return;
    }
    std::memcpy(to, rest_.data(), static_cast<size_t>(num_bytes));
    rest_ = rest_.subspan(static_cast<size_t>(num_bytes));
  }
  int64_t left() const { return std::ssize(rest_); }
  bool ok() const { return is_ok_; }

 private:
  std::span<const uint8_t> rest_;
  bool is_ok_ = true;
};

}  // namespace

int64_t KvStore::rows_bytes(int64_t num_tokens) const {
  const int32_t page[] = {0};
  int64_t sum = 0;
  for_each_span(page, num_tokens, [&](int64_t, int64_t bytes) { sum += bytes; });
  return sum;
}

void KvStore::append_rows(int32_t page, int64_t num_tokens, std::vector<uint8_t>& out) const {
  const int32_t pages[] = {page};
  for_each_span(pages, num_tokens,
                [&](int64_t offset, int64_t bytes) { append(page_bytes_at(offset), bytes, out); });
}

Result<void> KvStore::read_rows(int32_t page, int64_t num_tokens, std::span<const uint8_t> bytes) {
  if (std::ssize(bytes) != rows_bytes(num_tokens))
    return wrong("bytes of rows", rows_bytes(num_tokens), std::ssize(bytes));
  const int32_t pages[] = {page};
  ByteReader reader(bytes);
  for_each_span(pages, num_tokens, [&](int64_t offset, int64_t num_bytes) {
    reader.copy(page_bytes_at(offset), num_bytes);
  });
  return {};
}

int64_t KvStore::state_bytes_max(const ModelConfig& config) {
  return snapshot_bytes(config) + config.num_hidden_layers * kBoundsBytes +
         static_cast<int64_t>(sizeof(uint32_t) + kHistoryMax * sizeof(int32_t));
}

uint8_t* KvStore::snapshot_row(int32_t snapshot, int32_t layer, int64_t position) const {
  return snapshot_at(snapshot) +
         (int64_t{layer} * layout_.window + position % layout_.window) * layout_.window_row_bytes();
}

// Bounds by layer, the rows within them from the oldest on, open pairs after an odd length, number
// and ids of the history.
void KvStore::append_snapshot(int32_t snapshot, int64_t length, std::vector<uint8_t>& out) const {
  const Slot& kept = snapshot_slots_[static_cast<size_t>(snapshot)];
  for (size_t layer = 0; layer < kept.window_first.size(); ++layer) {
    append(&kept.window_first[layer], sizeof(int64_t), out);
    append(&kept.window_end[layer], sizeof(int64_t), out);
  }
  for (int32_t layer = 0; layer < layout_.num_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    for (int64_t position = kept.window_first[l]; position < kept.window_end[l]; ++position)
      append(snapshot_row(snapshot, layer, position), layout_.window_row_bytes(), out);
  }
  if (length % 2 != 0) append(snapshot_at(snapshot) + ring_bytes(), pair_bytes(), out);
  const auto history_len = static_cast<uint32_t>(kept.history.size());
  append(&history_len, sizeof(history_len), out);
  append(kept.history.data(), history_len * int64_t{sizeof(int32_t)}, out);
}

Result<void> KvStore::read_snapshot(int32_t snapshot, int64_t length,
                                    std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  Slot& kept = snapshot_slots_[static_cast<size_t>(snapshot)];
  for (size_t layer = 0; layer < kept.window_first.size(); ++layer) {
    reader.copy(&kept.window_first[layer], sizeof(int64_t));
    reader.copy(&kept.window_end[layer], sizeof(int64_t));
    if (!reader.ok())
      return wrong("bytes of bounds", kBoundsBytes * layout_.num_layers, std::ssize(bytes));
    if (kept.window_end[layer] != length)
      return wrong("end of a window", length, kept.window_end[layer]);
    const int64_t first_min = std::max<int64_t>(0, length - layout_.window);
    if (kept.window_first[layer] < first_min || kept.window_first[layer] > length)
      return wrong("beginning of a window", first_min, kept.window_first[layer]);
  }
  for (int32_t layer = 0; layer < layout_.num_layers; ++layer) {
    const auto l = static_cast<size_t>(layer);
    for (int64_t position = kept.window_first[l]; position < length; ++position)
      reader.copy(snapshot_row(snapshot, layer, position), layout_.window_row_bytes());
  }
  if (length % 2 != 0) reader.copy(snapshot_at(snapshot) + ring_bytes(), pair_bytes());
  uint32_t history_len = 0;
  reader.copy(&history_len, sizeof(history_len));
  if (!reader.ok() || history_len > kHistoryMax ||
      reader.left() != int64_t{history_len} * int64_t{sizeof(int32_t)})
    return wrong("bytes of ids", int64_t{history_len} * int64_t{sizeof(int32_t)}, reader.left());
  kept.history.resize(history_len);
  reader.copy(kept.history.data(), reader.left());
  return {};
}

}  // namespace yeoul
