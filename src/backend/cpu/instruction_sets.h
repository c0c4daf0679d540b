#pragma once

// A function marked YEOUL_CLONES is compiled for several instruction sets and chosen at load time.
// fma and the basic operations are exact by definition, so every version gives the same bits
// (docs/numerics.md). Its loops must be inlined into it, or they stay at the baseline.
// ThreadSanitizer does not get along with the resolvers, so it sees the baseline only.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_THREAD__)
#if defined(__clang__)
#define YEOUL_CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define YEOUL_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4"), optimize("O3")))
#endif
#else
#define YEOUL_CLONES
#endif
