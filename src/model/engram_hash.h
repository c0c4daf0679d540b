#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "checkpoint/config.h"

namespace yeoul {

// Addresses of Engram rows (model.md section 4.2): bucket primes, multipliers and offsets are
// derived from the configuration and from the size of the compressed vocabulary. Immutable after
// construction.
class EngramHash {
 public:
  // A position inside an image span: takes part in no n-gram and blocks the look-back.
  static constexpr int32_t kDead = -1;

  // `token_map` (token id -> compressed id) comes from the tokenizer (text/engram_token_map).
  // kCorrupt when the vocabulary or a table of the config does not fit it.
  static Result<EngramHash> create(const ModelConfig& config, std::vector<int32_t> token_map);

  int32_t num_layers() const { return static_cast<int32_t>(multipliers_.size()); }
  int32_t num_columns() const { return orders_ * heads_; }  // rows per token and layer
  int32_t history_len() const { return orders_; }           // compressed ids a row looks back to

  int32_t compressed(TokenId token, bool in_image) const {
    return in_image ? kDead : token_map_[static_cast<size_t>(token)];
  }

  // Table rows of the last position of `ids`, which holds the compressed ids of the position and of
  // up to history_len() positions before it, oldest first (fewer at the start of a sequence).
  // layer: 0 .. num_layers()-1 in the order of engram_layer_ids; rows: [num_columns].
  void rows(int32_t layer, std::span<const int32_t> ids, std::span<int64_t> rows) const;

  const std::vector<std::vector<int64_t>>& multipliers() const { return multipliers_; }
  const std::vector<std::vector<int64_t>>& primes() const { return primes_; }
  const std::vector<std::vector<int64_t>>& offsets() const { return offsets_; }

 private:
  int32_t orders_ = 0;  // n-gram orders 2 .. orders_ + 1
  int32_t heads_ = 0;
  int32_t pad_ = 0;
  std::vector<int32_t> token_map_;
  std::vector<std::vector<int64_t>> multipliers_;  // [layer][shift]
  std::vector<std::vector<int64_t>> primes_;       // [layer][column]
  std::vector<std::vector<int64_t>> offsets_;      // [layer][column]
};

// NumPy's default_rng(seed).integers(0, bound, count): SeedSequence, PCG64 (XSL-RR) and Lemire's
// bounded integers; seed < 2^32, bound > 2^32.
std::vector<int64_t> numpy_integers(uint32_t seed, uint64_t bound, int count);

}  // namespace yeoul
