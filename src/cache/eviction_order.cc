#include "cache/eviction_order.h"

#include "base/check.h"

namespace yeoul {

EvictionOrder::EvictionOrder(int32_t numbers_max)
    : place_(static_cast<size_t>(numbers_max), -1), ranks_(static_cast<size_t>(numbers_max)) {
  heap_.reserve(static_cast<size_t>(numbers_max));
}

bool EvictionOrder::goes_before(int32_t a, int32_t b) const {
  return rank(a) != rank(b) ? rank(a) < rank(b) : a < b;
}

void EvictionOrder::put(size_t place, int32_t number) {
  heap_[place] = number;
  place_[static_cast<size_t>(number)] = static_cast<int32_t>(place);
}

void EvictionOrder::move_up(size_t place) {
  const int32_t number = heap_[place];
  while (place > 0) {
    const size_t above = (place - 1) / 2;
    if (!goes_before(number, heap_[above])) break;
    put(place, heap_[above]);
    place = above;
  }
  put(place, number);
}

void EvictionOrder::move_down(size_t place) {
  const int32_t number = heap_[place];
  for (;;) {
    size_t below = 2 * place + 1;
    if (below >= heap_.size()) break;
    if (below + 1 < heap_.size() && goes_before(heap_[below + 1], heap_[below])) ++below;
    if (!goes_before(heap_[below], number)) break;
    put(place, heap_[below]);
    place = below;
  }
  put(place, number);
}

void EvictionOrder::set(int32_t number, double rank) {
  ranks_[static_cast<size_t>(number)] = rank;
  if (!contains(number)) {
    heap_.push_back(number);
    put(heap_.size() - 1, number);
  }
  const auto place = static_cast<size_t>(place_[static_cast<size_t>(number)]);
  move_up(place);
  move_down(static_cast<size_t>(place_[static_cast<size_t>(number)]));
}

void EvictionOrder::remove(int32_t number) {
  CHECK(contains(number), "{} has no rank", number);
  const auto place = static_cast<size_t>(place_[static_cast<size_t>(number)]);
  const int32_t last = heap_.back();
  heap_.pop_back();
  place_[static_cast<size_t>(number)] = -1;
  if (last == number) return;
  put(place, last);
  move_up(place);
  move_down(static_cast<size_t>(place_[static_cast<size_t>(last)]));
}

std::optional<int32_t> EvictionOrder::first() const {
  if (heap_.empty()) return std::nullopt;
  return heap_.front();
}

}  // namespace yeoul
