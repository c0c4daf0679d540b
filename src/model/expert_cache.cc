#include "model/expert_cache.h"

#include <limits>

#include "base/check.h"

namespace yeoul {

ExpertCache::ExpertCache(std::span<const int32_t> experts_of_layer, int32_t num_slots)
    : forecast_(experts_of_layer) {
  CHECK(num_slots > 0, "{} slots", num_slots);
  slot_of_.assign(static_cast<size_t>(forecast_.num_experts()), kNone);
  expert_of_.assign(static_cast<size_t>(num_slots), kNone);
  is_pinned_.assign(static_cast<size_t>(num_slots), 0);
  is_expected_.assign(static_cast<size_t>(num_slots), 0);
  expected_.reserve(static_cast<size_t>(num_slots));
  empty_.reserve(static_cast<size_t>(num_slots));
  for (int32_t slot = num_slots; slot-- > 0;) empty_.push_back(slot);
}

bool ExpertCache::hold(int32_t expert) {
  const int32_t slot = slot_of_[static_cast<size_t>(expert)];
  if (slot == kNone) return false;
  CHECK(is_pinned_[static_cast<size_t>(slot)] == 0, "expert {} is held already", expert);
  is_pinned_[static_cast<size_t>(slot)] = 1;
  return true;
}

std::optional<int32_t> ExpertCache::take(int32_t expert) {
  std::optional<int32_t> slot = victim(true);
  if (!slot) slot = victim(false);
  if (!slot) return std::nullopt;
  return assign(*slot, expert);
}

std::optional<int32_t> ExpertCache::take_ahead(int32_t expert) {
  if (2 * (expected_.size() + 1) > expert_of_.size()) return std::nullopt;
  const std::optional<int32_t> slot = victim(true);
  if (!slot) return std::nullopt;
  assign(*slot, expert);
  expect(expert);
  return slot;
}

void ExpertCache::expect(int32_t expert) {
  const int32_t slot = slot_of_[static_cast<size_t>(expert)];
  CHECK(slot != kNone, "expert {} has no slot", expert);
  if (is_expected_[static_cast<size_t>(slot)] != 0) return;
  is_expected_[static_cast<size_t>(slot)] = 1;
  expected_.push_back(slot);
}

void ExpertCache::forget_expected() {
  for (const int32_t slot : expected_) is_expected_[static_cast<size_t>(slot)] = 0;
  expected_.clear();
}

int32_t ExpertCache::assign(int32_t slot, int32_t expert) {
  CHECK(slot_of_[static_cast<size_t>(expert)] == kNone, "expert {} has a slot", expert);
  int32_t& owner = expert_of_[static_cast<size_t>(slot)];
  if (owner == kNone) {
    empty_.pop_back();
  } else {
    slot_of_[static_cast<size_t>(owner)] = kNone;
  }
  owner = expert;
  slot_of_[static_cast<size_t>(expert)] = slot;
  is_pinned_[static_cast<size_t>(slot)] = 1;
  return slot;
}

int32_t ExpertCache::slot(int32_t expert) const {
  const int32_t slot = slot_of_[static_cast<size_t>(expert)];
  CHECK(slot != kNone && is_pinned_[static_cast<size_t>(slot)] != 0, "expert {} is not held",
        expert);
  return slot;
}

void ExpertCache::release(int32_t expert) {
  is_pinned_[static_cast<size_t>(slot(expert))] = 0;
}

void ExpertCache::drop(int32_t expert) {
  const int32_t emptied = slot(expert);
  is_pinned_[static_cast<size_t>(emptied)] = 0;
  slot_of_[static_cast<size_t>(expert)] = kNone;
  expert_of_[static_cast<size_t>(emptied)] = kNone;
  empty_.push_back(emptied);
}

// An empty slot, else that of the expert that is least likely to be wanted.
std::optional<int32_t> ExpertCache::victim(bool spare_expected) const {
  if (!empty_.empty()) return empty_.back();
  std::optional<int32_t> worst;
  float worst_chance = std::numeric_limits<float>::infinity();
  for (size_t slot = 0; slot < expert_of_.size(); ++slot) {
    if (is_pinned_[slot] != 0 || (spare_expected && is_expected_[slot] != 0)) continue;
    const float chance = forecast_.chance(expert_of_[slot]);
    if (chance >= worst_chance) continue;
    worst_chance = chance;
    worst = static_cast<int32_t>(slot);
  }
  return worst;
}

}  // namespace yeoul
