#pragma once

// What this machine can do at best: the figures that kernels are measured against, in the same run.

#include <cstddef>
#include <cstdint>

#include "backend/cpu/thread_pool.h"

namespace yeoul {

// Of the steady clock.
double now_seconds();

// Bytes a second read from DRAM by all threads of the pool: the best of 1, 4 and 8 prefetched
// streams a thread over `bytes` of memory (take more than the caches hold).
double read_roof(ThreadPool& pool, const uint8_t* memory, size_t bytes);

// Multiply-adds a second, times two, of all threads: vdpbf16ps, or fused float32 where there is
// none.
double bf16_peak(ThreadPool& pool);
// Integer operations a second of vpdpbusd; 0 where the machine has none.
double int8_peak(ThreadPool& pool);

// Seconds of one parallel region that every thread of the pool enters; the best of many short
// batches, because other work on the machine only adds.
double fork_join_seconds(ThreadPool& pool);

}  // namespace yeoul
