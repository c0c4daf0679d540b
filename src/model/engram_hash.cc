#include "model/engram_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <unordered_set>

namespace yeoul {
namespace {

__extension__ using Uint128 = unsigned __int128;

// NumPy's SeedSequence for one 32-bit word of entropy: a pool of four words, hashed and mixed.
class SeedSequence {
 public:
  explicit SeedSequence(uint32_t seed) {
    const std::array<uint32_t, 4> entropy = {seed, 0, 0, 0};
    for (size_t i = 0; i < 4; ++i) pool_[i] = hash(entropy[i]);
    for (size_t source = 0; source < 4; ++source) {
      for (size_t target = 0; target < 4; ++target) {
        if (source != target) pool_[target] = mix(pool_[target], hash(pool_[source]));
      }
    }
  }

  std::array<uint64_t, 4> state() const {
    uint32_t constant = 0x8b51f9dd;
    std::array<uint32_t, 8> words{};
    for (size_t i = 0; i < words.size(); ++i) {
      uint32_t value = pool_[i % 4] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      words[i] = value ^ (value >> 16);
    }
    std::array<uint64_t, 4> state{};
    for (size_t i = 0; i < 4; ++i) state[i] = words[2 * i] | uint64_t{words[2 * i + 1]} << 32;
    return state;
  }

 private:
  uint32_t hash(uint32_t value) {
    value ^= constant_;
    constant_ *= 0x931e8875;
    value *= constant_;
    return value ^ (value >> 16);
  }
  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t value = 0xca01f9dd * x - 0x4973f715 * y;
    return value ^ (value >> 16);
  }

  uint32_t constant_ = 0x43b0d7e5;
  std::array<uint32_t, 4> pool_{};
};

class Pcg64 {
 public:
  explicit Pcg64(const std::array<uint64_t, 4>& seed)
      : increment_((Uint128{seed[2]} << 64 | seed[3]) << 1 | 1) {
    step();
    state_ += Uint128{seed[0]} << 64 | seed[1];
    step();
  }

  uint64_t next() {
    step();
    const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

 private:
  void step() {
    constexpr Uint128 kMultiplier = Uint128{0x2360ED051FC65DA4ull} << 64 | 0x4385DF649FCCF645ull;
    state_ = state_ * kMultiplier + increment_;
  }

  Uint128 state_ = 0;
  Uint128 increment_;
};

bool is_prime(int64_t n) {
  if (n < 2) return false;
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

// Consecutive primes from `start` on for every (layer, order, head), none used twice.
std::vector<std::vector<int64_t>> choose_primes(size_t layers, size_t columns, int64_t start) {
  std::vector<std::vector<int64_t>> primes(layers);
  int64_t next = start;
  for (std::vector<int64_t>& layer : primes) {
    for (size_t column = 0; column < columns; ++column) {
      while (!is_prime(next)) ++next;
      layer.push_back(next++);
    }
  }
  return primes;
}

}  // namespace

std::vector<int64_t> numpy_integers(uint32_t seed, uint64_t bound, int count) {
  Pcg64 generator(SeedSequence(seed).state());
  std::vector<int64_t> values;
  for (int i = 0; i < count; ++i) {
    // Lemire: the high word of a 128-bit product, rejecting the few that would be uneven.
    Uint128 product = Uint128{generator.next()} * bound;
    const uint64_t threshold = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < threshold) {
      product = Uint128{generator.next()} * bound;
    }
    values.push_back(static_cast<int64_t>(product >> 64));
  }
  return values;
}

Result<EngramHash> EngramHash::create(const ModelConfig& config, std::vector<int32_t> token_map) {
  EngramHash hash;
  if (static_cast<int64_t>(token_map.size()) < config.vocab_size) {
    return fail(ErrorCode::kCorrupt,
                fmt::format("Engram token map: {} entries expected (vocab_size), {} found",
                            config.vocab_size, token_map.size()));
  }
  const int64_t classes = 1 + *std::max_element(token_map.begin(), token_map.end());
  if (config.engram_compressed_vocab_size != 0 && classes != config.engram_compressed_vocab_size) {
    return fail(
        ErrorCode::kCorrupt,
        fmt::format("Engram token map: {} classes expected (engram_compressed_vocab_size), {} "
                    "found: this tokenizer does not belong to this checkpoint",
                    config.engram_compressed_vocab_size, classes));
  }
  hash.orders_ = config.engram_max_ngram_size - 1;
  hash.heads_ = config.engram_n_heads;
  hash.pad_ = token_map[static_cast<size_t>(config.engram_pad_token_id)];
  hash.token_map_ = std::move(token_map);
  hash.primes_ = choose_primes(config.engram_layer_ids.size(),
                               static_cast<size_t>(hash.num_columns()), config.engram_vocab_size);
  const uint64_t bound = static_cast<uint64_t>(std::numeric_limits<int64_t>::max() / classes / 2);
  for (size_t i = 0; i < config.engram_layer_ids.size(); ++i) {
    const auto seed = static_cast<uint32_t>(10007 * config.engram_layer_ids[i]);
    std::vector<int64_t> drawn = numpy_integers(seed, bound, config.engram_max_ngram_size);
    for (int64_t& value : drawn) value = 2 * value + 1;
    hash.multipliers_.push_back(std::move(drawn));
    std::vector<int64_t> offsets;
    int64_t total = 0;
    for (const int64_t prime : hash.primes_[i]) {
      offsets.push_back(total);
      total += prime;
    }
    hash.offsets_.push_back(std::move(offsets));
    if (i < config.engram_num_embeddings.size() && config.engram_num_embeddings[i] != total) {
      return fail(
          ErrorCode::kCorrupt,
          fmt::format("layers.{}.engram.embed: {} rows expected from its bucket primes, {} found",
                      config.engram_layer_ids[i], total, config.engram_num_embeddings[i]));
    }
  }
  return hash;
}

void EngramHash::rows(int32_t layer, std::span<const int32_t> ids, std::span<int64_t> rows) const {
  const auto l = static_cast<size_t>(layer);
  bool blocked = false;  // once blocked, all older positions read as padding
  int64_t mixed = 0;
  size_t column = 0;
  for (size_t shift = 0; shift <= static_cast<size_t>(orders_); ++shift) {
    blocked = blocked || shift >= ids.size() || ids[ids.size() - 1 - shift] == kDead;
    const int64_t id = blocked ? pad_ : ids[ids.size() - 1 - shift];
    mixed ^= id * multipliers_[l][shift];
    if (shift == 0) continue;
    for (int32_t head = 0; head < heads_; ++head, ++column) {
      rows[column] = mixed % primes_[l][column] + offsets_[l][column];
    }
  }
}

}  // namespace yeoul
