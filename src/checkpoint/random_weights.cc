#include "checkpoint/random_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/check.h"
#include "base/counter_rng.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp8_e4m3.h"

namespace yeoul {
namespace {

constexpr double kFp8CodeDeviation = 64;     // most codes have full precision, none saturates
constexpr double kFp4CodeDeviation = 3.022;  // of the 15 different e2m1 values, each alike

// How the values of a tensor spread: a matrix by gain / sqrt(inputs), anything else by gain.
struct Spread {
  std::string_view part;  // of the tensor's name; the first match counts
  double mean = 0;
  double gain = 1;
};

// Each block adds about a tenth of the residual's size; attention logits have a standard deviation
// near 2, logits of the head one near 3.5.
constexpr Spread kSpreads[] = {
    {"norm.weight", 1, 0.2},
    {"hc_attn_base", 0, 0.5},
    {"hc_ffn_base", 0, 0.5},
    {"hc_attn_scale", 0.5, 0.1},
    {"hc_ffn_scale", 0.5, 0.1},
    {"indexer.wq_b", 0, 1.5},
    {"weights_proj", 0, 4},
    {"attn.wq_b", 0, 1.4},
    {"attn.wo_b", 0, 0.3},
    {"compressor.wgate", 0, 1.5},
    {"gate.weight", 0, 2},
    {"gate.bias_vl", 0, 0.6},
    {"gate.bias", 0, 0.3},
    {".w1", 0, 1.4},
    {".w3", 0, 1.4},
    {".w2", 0, 0.2},
    {"engram.wkv", 0, 0.35},
    {"engram.q_weight", 1, 0.3},
    {"engram.k_weight", 1, 0.3},
    {"head.weight", 0, 3.5},
    {"", 0, 1},
};

const Spread& spread_of(const std::string& name) {
  const Spread* spread = kSpreads;
  while (name.find(spread->part) == std::string::npos) ++spread;
  return *spread;
}

// Standard deviation of the values of a tensor, or of those that a scale tensor belongs to.
double deviation_of(const ExpectedTensor& tensor) {
  if (tensor.name == "embed.weight") return 2.6;
  const double gain = spread_of(tensor.name).gain;
  const bool is_matrix = tensor.shape.size() == 2 && !tensor.name.ends_with("q_weight") &&
                         !tensor.name.ends_with("k_weight") &&
                         tensor.name.find(".engram.embed.") == std::string::npos;
  if (!is_matrix) return gain;
  const int64_t inputs_per_element = tensor.dtype == Dtype::kF8E8m0 ? 32
                                     : tensor.dtype == Dtype::kI8   ? 2
                                                                    : 1;
  return gain / std::sqrt(static_cast<double>(inputs_per_element * tensor.shape.back()));
}

// Sum of four uniform 16-bit numbers: mean 0, standard deviation 1, at most 3.47.
double normal(uint64_t bits) {
  double sum = 0;
  for (int part = 0; part < 4; ++part) sum += static_cast<double>(bits >> (16 * part) & 0xFFFF);
  return (sum - 131070.0) / 37837.2272;
}

// A stored byte for 16 random bits: one word of random bits then makes four codes.
using CodeTable = std::array<uint8_t, 65536>;

const CodeTable& normal_e4m3() {
  static const CodeTable table = [] {
    CodeTable out;
    // The index only picks one of 65,536 draws.
    for (size_t i = 0; i < out.size(); ++i) {
      const double value = kFp8CodeDeviation * normal(mix64(i));
      out[i] = to_e4m3(static_cast<float>(value));
    }
    return out;
  }();
  return table;
}

// Two e2m1 codes a byte, each of the 15 values alike; code 8 would be a second zero.
const CodeTable& e2m1_pairs() {
  static const CodeTable table = [] {
    CodeTable out;
    const auto code = [](size_t n) { return n + (n >= 8 ? 1 : 0); };
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<uint8_t>(code(i % 15) | code(i / 15 % 15) << 4);
    }
    return out;
  }();
  return table;
}

// Random words of one tensor, by number.
class Words {
 public:
  Words(uint64_t seed, const std::string& name) : key_(mix64(seed)) {
    for (const char c : name) key_ = mix64(key_ ^ static_cast<uint8_t>(c));
  }
  uint64_t operator[](uint64_t i) const { return counter_bits(key_, i); }

 private:
  uint64_t key_;
};

// One value a word.
template <typename Value, typename At>
void fill_values(uint64_t offset, std::span<std::byte> into, const At& at) {
  const uint64_t first = offset / sizeof(Value);
  for (size_t i = 0; i < into.size() / sizeof(Value); ++i) {
    const Value value = at(first + i);
    std::memcpy(into.data() + i * sizeof(Value), &value, sizeof(Value));
  }
}

// Four codes a word.
void fill_codes(const Words& words, const CodeTable& table, uint64_t offset,
                std::span<std::byte> into) {
  for (size_t i = 0; i < into.size(); i += 4) {
    const uint64_t bits = words[(offset + i) / 4];
    const size_t count = std::min<size_t>(4, into.size() - i);
    for (size_t k = 0; k < count; ++k) into[i + k] = std::byte{table[bits >> (16 * k) & 0xFFFF]};
  }
}

}  // namespace

void RandomWeights::fill(const ExpectedTensor& tensor, uint64_t offset,
                         std::span<std::byte> into) const {
  CHECK(offset % 8 == 0);
  const Words words(seed_, tensor.name);
  const double mean = spread_of(tensor.name).mean, deviation = deviation_of(tensor);
  const auto value = [&](uint64_t i) {
    return static_cast<float>(mean + deviation * normal(words[i]));
  };
  switch (tensor.dtype) {
    case Dtype::kF32:
      return fill_values<float>(offset, into, value);
    case Dtype::kBf16:
      return fill_values<Bf16>(offset, into, [&](uint64_t i) { return to_bf16(value(i)); });
    case Dtype::kF8E4m3:
      return fill_codes(words, normal_e4m3(), offset, into);
    case Dtype::kI8:
      return fill_codes(words, e2m1_pairs(), offset, into);
    case Dtype::kF8E8m0: {
      // A power of two up to a factor 2 around the wanted one: neighbouring groups differ.
      const bool is_fp4 = tensor.name.find(".experts.") != std::string::npos;
      const double wanted = std::log2(deviation / (is_fp4 ? kFp4CodeDeviation : kFp8CodeDeviation));
      return fill_values<uint8_t>(offset, into, [&](uint64_t i) {
        return static_cast<uint8_t>(127 + std::lround(wanted + 2 * unit_interval(words[i]) - 1));
      });
    }
  }
}

}  // namespace yeoul
