#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace yeoul {

// Which Engram row is kept at which of a fixed number of places. A row that was just read replaces
// the least used of the few that share its set, and only if it is used more itself: rows that are
// seen once do not push out those of frequent n-grams. Uses are counted in a sketch that forgets by
// halves. Accounting only: what a place holds is EngramRows'.
//
// Thread-confined; does not allocate after construction.
class EngramRowCache {
 public:
  explicit EngramRowCache(int64_t num_places);  // rounded down to whole sets; may be 0

  int64_t num_places() const { return static_cast<int64_t>(keys_.size()); }
  static int64_t bytes_per_place();  // of the accounting

  // Counts a use of the row; its place if it is kept.
  std::optional<int64_t> find(uint64_t key);
  // A place for a row that is not kept, after find(); none if those that are kept are used more.
  std::optional<int64_t> admit(uint64_t key);

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  size_t first_of_set(uint64_t key) const;
  uint8_t& counter(uint64_t key, uint64_t salt);
  int32_t uses(uint64_t key);
  void count(uint64_t key);

  std::vector<uint64_t> keys_;     // [places]
  std::vector<uint8_t> counters_;  // a power of two
  int64_t num_counted_ = 0;        // since the counters were halved
};

}  // namespace yeoul
