#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace yeoul {

// Which of a set of numbered things goes first: the one of the least rank, the lower number on a
// tie. A binary heap that knows where each thing stands, so that one may change its rank or leave.
// Allocates at construction only. Thread-confined to the engine thread.
class EvictionOrder {
 public:
  explicit EvictionOrder(int32_t numbers_max);

  bool contains(int32_t number) const { return place_[static_cast<size_t>(number)] >= 0; }
  int32_t size() const { return static_cast<int32_t>(heap_.size()); }

  // Adds it, or gives it another rank. O(log n).
  void set(int32_t number, double rank);
  void remove(int32_t number);

  std::optional<int32_t> first() const;
  double rank(int32_t number) const { return ranks_[static_cast<size_t>(number)]; }

 private:
  bool goes_before(int32_t a, int32_t b) const;
  void put(size_t place, int32_t number);
  void move_up(size_t place);
  void move_down(size_t place);

  std::vector<int32_t> heap_;
  std::vector<int32_t> place_;  // by number: index into heap_, or -1
  std::vector<double> ranks_;   // by number
};

}  // namespace yeoul
