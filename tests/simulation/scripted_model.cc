#include "scripted_model.h"

#include <algorithm>

#include "base/counter_rng.h"

namespace yeoul::simulation {

TokenId Script::token(uint64_t digest, uint64_t seed, int32_t choice, int64_t position) const {
  const uint64_t key =
      counter_key(digest ^ seed, static_cast<uint64_t>(choice), static_cast<uint64_t>(position));
  return static_cast<TokenId>(counter_bits(key, 0) % static_cast<uint64_t>(vocab_size));
}

std::optional<RowStatus> Script::fault(uint64_t prefix_hash) const {
  if (fault_rate <= 0) return std::nullopt;
  const uint64_t key = mix64(prefix_hash ^ mix64(fault_seed));
  if (unit_interval(counter_bits(key, 1)) >= fault_rate) return std::nullopt;
  return counter_bits(key, 2) % 2 == 0 ? RowStatus::kNonFinite : RowStatus::kReadFailed;
}

uint64_t extend(uint64_t prefix_hash, TokenId token) {
  return mix64(prefix_hash ^ static_cast<uint64_t>(token));
}

uint64_t window_row(uint64_t prefix_hash, int32_t layer) {
  return mix64(prefix_hash + (static_cast<uint64_t>(layer) << 32));
}

uint64_t digest_of(std::span<const uint64_t> prefixes, const ResumeShape& shape) {
  uint64_t digest = prefixes.back();
  for (const uint64_t prefix : prefixes) digest ^= prefix;
  const size_t window = std::min(prefixes.size(), static_cast<size_t>(shape.reach) + 1);
  for (int32_t layer = 0; layer < shape.num_layers; ++layer)
    for (const uint64_t prefix : prefixes.last(window)) digest ^= window_row(prefix, layer);
  return digest;
}

void ConeRows::compute(const ResumeShape& shape, int64_t cone_end) {
  output_begin.assign(static_cast<size_t>(shape.num_layers), 0);
  window_begin.assign(static_cast<size_t>(shape.num_layers), 0);
  if (cone_end < 0) return;
  int64_t wanted = cone_end - 1;  // first output row that the layer above, or the head, reads
  for (int32_t layer = shape.num_layers; layer-- > shape.last_source;) {
    const auto l = static_cast<size_t>(layer);
    output_begin[l] = std::max<int64_t>(0, wanted);
    wanted = std::max<int64_t>(0, wanted - shape.reach);
    window_begin[l] = wanted;
  }
}

ScriptedState::ScriptedState(const ResumeShape& shape)
    : num_layers_(shape.num_layers), window_(int64_t{shape.reach} + 1) {
  rows_.resize(static_cast<size_t>(num_layers_ * window_));
  first_.resize(static_cast<size_t>(num_layers_));
}

size_t ScriptedState::place(int32_t layer, int64_t position) const {
  return static_cast<size_t>(layer * window_ + position % window_);
}

void ScriptedState::clear() {
  std::ranges::fill(first_, 0);
  length_ = 0;
  prefix_hash_ = kEmptyPrefix;
}

void ScriptedState::append(int64_t position, uint64_t prefix_hash, const ConeRows& cone) {
  for (int32_t layer = 0; layer < num_layers_; ++layer) {
    const auto l = static_cast<size_t>(layer);
    if (position < cone.window_begin[l]) {
      first_[l] = position + 1;
      continue;
    }
    rows_[place(layer, position)] = window_row(prefix_hash, layer);
    first_[l] = std::max(first_[l], position + 1 - window_);
  }
  length_ = position + 1;
  prefix_hash_ = prefix_hash;
}

bool ScriptedState::holds_from(int32_t layer, int64_t begin) const {
  return begin >= length_ || first_valid(layer) <= begin;
}

uint64_t ScriptedState::row(int32_t layer, int64_t position) const {
  return rows_[place(layer, position)];
}

}  // namespace yeoul::simulation
