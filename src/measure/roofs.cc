#include "measure/roofs.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "backend/cpu/isa.h"

namespace yeoul {
namespace {

volatile uint64_t sink;

// Keeps `value` from being optimised away.
void use(uint64_t value) {
  sink = sink + value;
}

[[gnu::always_inline]] inline uint64_t read_loop(const uint8_t* memory, size_t part, int streams) {
  uint64_t sums[8][8] = {};
  for (size_t at = 0; at < part; at += 64) {
    for (int s = 0; s < streams; ++s) {
      const uint8_t* line = memory + static_cast<size_t>(s) * part + at;
      __builtin_prefetch(line + 1024);
      uint64_t words[8];
      __builtin_memcpy(words, line, 64);
      for (int i = 0; i < 8; ++i) sums[s][i] ^= words[i];
    }
  }
  uint64_t total = 0;
  for (const auto& lane : sums) {
    for (const uint64_t word : lane) total ^= word;
  }
  return total;
}

#if defined(__x86_64__)
#define YEOUL_WIDE __attribute__((target_clones("default", "arch=x86-64-v4"), optimize("O3")))
#else
#define YEOUL_WIDE
#endif
#if defined(__clang__)
#undef YEOUL_WIDE
#define YEOUL_WIDE
#endif
YEOUL_WIDE uint64_t read_one(const uint8_t* memory, size_t part) {
  return read_loop(memory, part, 1);
}
YEOUL_WIDE uint64_t read_four(const uint8_t* memory, size_t part) {
  return read_loop(memory, part, 4);
}
YEOUL_WIDE uint64_t read_eight(const uint8_t* memory, size_t part) {
  return read_loop(memory, part, 8);
}

// Rate of `operations` a call of work(thread), on every thread; the best of five, or of fewer where
// other work makes them take long.
template <typename Work>
double rate(ThreadPool& pool, double operations, const Work& work) {
  constexpr double kSecondsMax = 0.5;
  double best = 0;
  const double begin = now_seconds();
  for (int i = 0; i < 5 && (i == 0 || now_seconds() - begin < kSecondsMax); ++i) {
    const double start = now_seconds();
    pool.run(pool.num_threads(), [&](int64_t, int thread) { work(thread); });
    best = std::max(best, pool.num_threads() * operations / (now_seconds() - start));
  }
  return best;
}

constexpr int kRounds = 400'000, kChains = 12;

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512bf16"))) void bf16_loop() {
  __m512 sums[kChains];
  const __m512i bits = _mm512_set1_epi16(0x3F80);
  const __m512bh one = reinterpret_cast<__m512bh>(bits);
  for (auto& s : sums) s = _mm512_set1_ps(0);
  for (int i = 0; i < kRounds; ++i) {
    for (auto& s : sums) s = _mm512_dpbf16_ps(s, one, one);
  }
  float total = 0;
  for (const auto& s : sums) total += _mm512_reduce_add_ps(s);
  use(static_cast<uint64_t>(total));
}

__attribute__((target("avx512f,avx512vnni"))) void int8_loop() {
  __m512i sums[kChains];
  const __m512i one = _mm512_set1_epi8(1);
  for (auto& s : sums) s = _mm512_set1_epi32(0);
  for (int i = 0; i < kRounds; ++i) {
    for (auto& s : sums) s = _mm512_dpbusd_epi32(s, one, one);
  }
  int total = 0;
  for (const auto& s : sums) total += _mm512_reduce_add_epi32(s);
  use(static_cast<uint64_t>(total));
}
#endif

void float_loop() {
  float sums[kChains][16] = {};
  for (int i = 0; i < kRounds; ++i) {
    for (auto& chain : sums) {
      for (float& s : chain) s = __builtin_fmaf(1.0f, 1.0f, s);
    }
  }
  float total = 0;
  for (const auto& chain : sums) {
    for (const float s : chain) total += s;
  }
  use(static_cast<uint64_t>(total));
}

}  // namespace

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double read_roof(ThreadPool& pool, const uint8_t* memory, size_t bytes) {
  const size_t share = bytes / static_cast<size_t>(pool.num_threads());
  double best = 0;
  for (const size_t streams : {size_t{1}, size_t{4}, size_t{8}}) {
    const size_t part = share / streams / 64 * 64;
    best = std::max(best, rate(pool, static_cast<double>(part * streams), [&](int thread) {
                      const uint8_t* begin = memory + static_cast<size_t>(thread) * share;
                      use(streams == 1   ? read_one(begin, part)
                          : streams == 4 ? read_four(begin, part)
                                         : read_eight(begin, part));
                    }));
  }
  return best;
}

double fork_join_seconds(ThreadPool& pool) {
  // On a busy machine one region takes a time slice: then a few of them must do.
  constexpr double kSecondsMax = 1;
  constexpr int kBatches = 400, kRegions = 100;
  const int threads = pool.num_threads();
  const double deadline = now_seconds() + kSecondsMax;
  double best = 1e9;
  for (int batch = 0; batch < kBatches && now_seconds() < deadline; ++batch) {
    const double start = now_seconds();
    int regions = 0;
    for (; regions < kRegions && now_seconds() < deadline; ++regions) {
      std::atomic<int> arrived{0};
      pool.run(threads, [&](int64_t, int) {
        ++arrived;
        while (arrived.load(std::memory_order_acquire) < threads) {
        }
      });
    }
    if (regions > 0) best = std::min(best, (now_seconds() - start) / regions);
  }
  return best;
}

double bf16_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) {
    return rate(pool, 64.0 * kRounds * kChains, [](int) { bf16_loop(); });
  }
#endif
  return rate(pool, 32.0 * kRounds * kChains, [](int) { float_loop(); });
}

double int8_peak(ThreadPool& pool) {
#if defined(__x86_64__)
  if (best_isa() == Isa::kAvx512) {
    return rate(pool, 128.0 * kRounds * kChains, [](int) { int8_loop(); });
  }
#endif
  return 0;
}

}  // namespace yeoul
