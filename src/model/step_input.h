#pragma once

#include <cstdint>
#include <span>

#include "base/token.h"
#include "tensor/formats/bf16.h"

namespace yeoul {

enum class LogitRows : uint8_t { kNone, kLast, kEvery };

// One run of consecutive tokens of one sequence, through a range of layers.
struct ItemInput {
  int32_t slot = 0;
  int64_t position = 0;   // of the first token
  int32_t first_row = 0;  // into StepInput::tokens
  int32_t num_rows = 0;
  const int32_t* pages = nullptr;  // page numbers of positions 0 .. position + num_rows - 1
  int32_t layer_begin = 0;
  int32_t layer_end = 0;
  int64_t cone_end = -1;                // prompt length, or -1: every row runs through every layer
  LogitRows logits = LogitRows::kNone;  // only for items that end with the last layer
};

// What one step feeds the model: plain data. Items are in row order and do not overlap; a slot
// appears at most once.
struct StepInput {
  std::span<const ItemInput> items;
  std::span<const TokenId> tokens;         // [T]
  std::span<const uint8_t> is_image = {};  // [T] or empty: none
  const Bf16* embeds = nullptr;            // [T, H], used where is_image
};

}  // namespace yeoul
