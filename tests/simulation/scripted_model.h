#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/token.h"
#include "cache/resume_rule.h"
#include "engine/executor.h"

namespace yeoul::simulation {

// What the scripted model computes: a row of a position is a hash of the tokens up to it, a window
// row of a layer a hash of that, and the next token a hash of every row that a real model would
// read: those in the pages, the window of each layer, what a slot carries. So a token that ended up
// in the wrong sequence, position or page, and a state restored wrongly, change the output.
struct Script {
  int32_t vocab_size = 64;
  uint64_t fault_seed = 0;
  double fault_rate = 0;  // of one prefix
  // Steps that end with the loss of the device: at launch, or at collect. 0: never.
  uint64_t lose_at_launch = 0;
  uint64_t lose_at_collect = 0;

  // After the rows that `digest` is of.
  TokenId token(uint64_t digest, uint64_t seed, int32_t choice, int64_t position) const;
  // Of computing the last token of a prefix; the same for whoever computes it.
  std::optional<RowStatus> fault(uint64_t prefix_hash) const;
};

inline constexpr uint64_t kEmptyPrefix = 0x79656f756cull;
uint64_t extend(uint64_t prefix_hash, TokenId token);
uint64_t window_row(uint64_t prefix_hash, int32_t layer);

// Of all rows that position size-1 reads, given the hash of the prefix up to each position.
uint64_t digest_of(std::span<const uint64_t> prefixes, const ResumeShape& shape);

// By layer, which rows of a prompt pass through it and which leave a window row there: from the
// last position backwards, row by row. cone_end: as of a plan item.
struct ConeRows {
  std::vector<int64_t> output_begin;
  std::vector<int64_t> window_begin;
  void compute(const ResumeShape& shape,
               int64_t cone_end);  // storage is there after the first call
};

// What a slot holds outside its pages: window rows by layer and the hash of its prefix.
class ScriptedState {
 public:
  explicit ScriptedState(const ResumeShape& shape);

  void clear();
  // Appends the row of one position to the layers where it leaves a window row.
  void append(int64_t position, uint64_t prefix_hash, const ConeRows& cone);

  int64_t first_valid(int32_t layer) const { return first_[static_cast<size_t>(layer)]; }
  int64_t length() const { return length_; }
  uint64_t prefix_hash() const { return prefix_hash_; }
  // Whether the layer holds its rows from `begin` to the last position.
  bool holds_from(int32_t layer, int64_t begin) const;
  uint64_t row(int32_t layer, int64_t position) const;
  std::span<const int64_t> first_valid() const { return first_; }

 private:
  size_t place(int32_t layer, int64_t position) const;

  int32_t num_layers_;
  int64_t window_;  // rows a layer keeps
  std::vector<uint64_t> rows_;
  std::vector<int64_t> first_;  // by layer; rows first .. length - 1 are there
  int64_t length_ = 0;
  uint64_t prefix_hash_ = kEmptyPrefix;
};

}  // namespace yeoul::simulation
