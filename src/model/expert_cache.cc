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
  CHECK(slot_of_[static_cast<size_t>(expert)] == kNone, "expert {} has a slot", expert);
  std::optional<int32_t> slot;
  if (!empty_.empty()) {
    slot = empty_.back();
    empty_.pop_back();
  } else if (slot = victim(); slot) {
    slot_of_[static_cast<size_t>(expert_of_[static_cast<size_t>(*slot)])] = kNone;
  } else {
    return std::nullopt;
  }
  slot_of_[static_cast<size_t>(expert)] = *slot;
  expert_of_[static_cast<size_t>(*slot)] = expert;
  is_pinned_[static_cast<size_t>(*slot)] = 1;
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

std::optional<int32_t> ExpertCache::victim() const {
  std::optional<int32_t> worst;
  float worst_chance = std::numeric_limits<float>::infinity();
  for (size_t slot = 0; slot < expert_of_.size(); ++slot) {
    if (is_pinned_[slot] != 0) continue;
    const float chance = forecast_.chance(expert_of_[slot]);
    if (chance >= worst_chance) continue;
    worst_chance = chance;
    worst = static_cast<int32_t>(slot);
  }
  return worst;
}

}  // namespace yeoul
