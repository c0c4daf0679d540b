#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace yeoul {

// How likely each routed expert is wanted at the next visit of its layer, foretold from what the
// router chose so far.
//
// For every expert there are running means of its use over the visits of its layer, at several time
// scales; the forecast is their weighted sum. The weights are fitted as visits come (least squares
// over all experts, old visits fading), so that it leans on the fast means where routing sticks to
// a topic and on the slow ones where popularity lasts.
//
// Pure arithmetic on choices: knows no memory and no file. Does not allocate after construction.
class ExpertForecast {
 public:
  // experts_of_layer[l]: routed experts of layer l.
  explicit ExpertForecast(std::span<const int32_t> experts_of_layer);

  int32_t num_experts() const { return first_.back(); }
  // Experts are numbered through all layers.
  int32_t index(int32_t layer, int32_t expert) const {
    return first_[static_cast<size_t>(layer)] + expert;
  }

  // A step is at `layer` and its rows chose these experts (distinct).
  void visit(int32_t layer, std::span<const int32_t> experts);

  // A chance up to scale and offset: larger is likelier.
  float chance(int32_t index) const { return chances_[static_cast<size_t>(index)]; }

 private:
  static constexpr size_t kScales = 5;
  using Means = std::array<float, kScales>;

  void learn(std::span<const Means> means);
  void fit();

  std::vector<int32_t> first_;   // [layers + 1] index of the layer's first expert
  std::vector<Means> means_;     // [experts]
  std::vector<float> chances_;   // [experts]
  std::vector<uint8_t> used_;    // [experts of the largest layer] of the visit at hand
  std::vector<int64_t> visits_;  // [layers]
  std::array<double, kScales * kScales> products_{};  // sum of means x means, fading
  std::array<double, kScales> targets_{};             // sum of means x use, fading
  Means weights_{};
};

}  // namespace yeoul
