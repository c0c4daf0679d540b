#include "text/unicode_class.h"

#include <array>
#include <map>
#include <vector>

namespace yeoul {
namespace {

constexpr uint32_t kCodePoints = 0x110000;
constexpr uint32_t kBlock = 128;  // code points of a block; equal blocks are stored once

// Two-level table: block number -> first entry of the block -> class. About 60 KB.
class ClassTable {
 public:
  ClassTable() {
    std::vector<uint8_t> flat(kCodePoints, 0);
    for (size_t i = 0; i < kUnicodeRangeCount; ++i) {
      const UnicodeRange& range = kUnicodeRanges[i];
      for (uint32_t c = range.first; c <= range.last; ++c) flat[c] = range.unicode_class;
    }
    std::map<std::vector<uint8_t>, uint32_t> known;
    for (uint32_t block = 0; block < kCodePoints / kBlock; ++block) {
      const auto begin = flat.begin() + block * kBlock;
      const auto [entry, is_new] = known.try_emplace(std::vector<uint8_t>(begin, begin + kBlock),
                                                     static_cast<uint32_t>(classes_.size()));
      if (is_new) classes_.insert(classes_.end(), entry->first.begin(), entry->first.end());
      start_[block] = entry->second;
    }
  }

  uint8_t at(uint32_t code_point) const {
    return classes_[start_[code_point / kBlock] + code_point % kBlock];
  }

 private:
  std::array<uint32_t, kCodePoints / kBlock> start_{};
  std::vector<uint8_t> classes_;
};

}  // namespace

uint8_t unicode_class(uint32_t code_point) {
  static const ClassTable table;
  return table.at(code_point);
}

}  // namespace yeoul
