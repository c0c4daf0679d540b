#pragma once

#include <cstdint>

namespace yeoul {

// Where the rows of a step's sequences lie. Plain numbers and base addresses, so that it could live
// on a device. Row formats: tensor/formats/kv_rows.h.

// One KV source layer inside a page. A page holds its rows as four arrays, one after another:
// codes [rows][D/2], scales [rows][D/16], key codes [rows][hd/2], key scales [rows][hd/32].
struct SourceLayout {
  int32_t layer = 0;
  int32_t ratio = 1;          // tokens per compressed row
  int32_t rows_per_page = 0;  // tokens_per_page / ratio
  int64_t codes_offset = 0;   // from the start of the page
  int64_t scales_offset = 0;
  int64_t key_codes_offset = 0;
  int64_t key_scales_offset = 0;
};

struct KvLayout {
  int32_t head_dim = 0;        // D, a multiple of 32
  int32_t index_head_dim = 0;  // hd, a multiple of 32
  int32_t window = 0;          // W
  int32_t num_layers = 0;
  int32_t tokens_per_page = 0;
  int64_t page_bytes = 0;
  int64_t window_row_bytes() const { return head_dim + head_dim / 32; }  // codes, then scales
  int64_t code_bytes() const { return head_dim / 2; }
  int64_t scale_bytes() const { return head_dim / 16; }
  int64_t key_code_bytes() const { return index_head_dim / 2; }
  int64_t key_scale_bytes() const { return index_head_dim / 32; }
};

// One plan item as the ops see it: a run of rows of one sequence.
struct ItemView {
  int32_t slot = 0;
  int32_t first_row = 0;  // in the step
  int32_t num_rows = 0;
  int64_t position = 0;            // of the first row
  const int32_t* pages = nullptr;  // page numbers of positions 0 .. position + num_rows - 1
  int64_t window_first = 0;        // for the layer at hand: first position whose window row exists
};

struct KvView {
  KvLayout layout;
  uint8_t* pages = nullptr;   // [num_pages][page_bytes]
  uint8_t* ring = nullptr;    // [slots][num_layers][W][window_row_bytes], position p at p mod W
  uint8_t* staged = nullptr;  // [num_layers][rows_max][window_row_bytes], rows of this step
  int32_t rows_max = 0;
  const ItemView* items = nullptr;

  uint8_t* staged_row(int32_t layer, int32_t step_row) const {
    return staged + (int64_t{layer} * rows_max + step_row) * layout.window_row_bytes();
  }
  // The window row of `position` as seen from `item`: of this step, or of the ring.
  const uint8_t* window_row(const ItemView& item, int32_t layer, int64_t position) const {
    if (position >= item.position) {
      return staged_row(layer, item.first_row + static_cast<int32_t>(position - item.position));
    }
    return ring + ((int64_t{item.slot} * layout.num_layers + layer) * layout.window +
                   position % layout.window) *
                      layout.window_row_bytes();
  }
  // Start of the page that holds compressed row `row` of `source`; row_in_page its index there.
  uint8_t* page_of(const ItemView& item, const SourceLayout& source, int64_t row,
                   int64_t* row_in_page) const {
    *row_in_page = row % source.rows_per_page;
    return pages + int64_t{item.pages[row / source.rows_per_page]} * layout.page_bytes;
  }
};

}  // namespace yeoul
