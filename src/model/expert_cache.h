#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/expert_forecast.h"

namespace yeoul {

// Which expert is in which slot, and which one makes room: the one least likely to be wanted again
// (ExpertForecast). An expert is pinned between hold() or take() and release(); a pinned one does
// not make room, and an expected one only when nothing else can. Accounting only: what a slot holds
// is ExpertStore's.
class ExpertCache {
 public:
  ExpertCache(std::span<const int32_t> experts_of_layer, int32_t num_slots);

  int32_t num_slots() const { return static_cast<int32_t>(expert_of_.size()); }
  int32_t num_experts() const { return forecast_.num_experts(); }
  // Experts are numbered through all layers.
  int32_t index(int32_t layer, int32_t expert) const { return forecast_.index(layer, expert); }

  // A step is at `layer` and its rows chose these experts (distinct).
  void visit(int32_t layer, std::span<const int32_t> experts) { forecast_.visit(layer, experts); }

  // Pins the expert; false when it has no slot.
  bool hold(int32_t expert);
  // A slot for an expert that has none, pinned: an empty one, else the best victim's. None when
  // everything is pinned.
  std::optional<int32_t> take(int32_t expert);
  // The same for an expert that is only expected to be wanted: at no other expected one's cost, and
  // never beyond half of the slots.
  std::optional<int32_t> take_ahead(int32_t expert);
  // The next layer step is thought to want the expert, which has a slot; until forget_expected().
  void expect(int32_t expert);
  void forget_expected();
  bool has_slot(int32_t expert) const { return slot_of_[static_cast<size_t>(expert)] != kNone; }
  // The slot of a pinned expert.
  int32_t slot(int32_t expert) const;
  void release(int32_t expert);
  // Empties the slot of a pinned expert, whose bytes could not be read.
  void drop(int32_t expert);

 private:
  static constexpr int32_t kNone = -1;
  std::optional<int32_t> victim(bool spare_expected) const;
  int32_t assign(int32_t slot, int32_t expert);

  ExpertForecast forecast_;
  std::vector<int32_t> slot_of_;      // [experts] or kNone
  std::vector<int32_t> expert_of_;    // [slots] or kNone
  std::vector<uint8_t> is_pinned_;    // [slots]
  std::vector<uint8_t> is_expected_;  // [slots]
  std::vector<int32_t> expected_;     // slots
  std::vector<int32_t> empty_;        // slots without an expert, the next one last
};

}  // namespace yeoul
