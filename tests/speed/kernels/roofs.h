#pragma once

// What this machine can do at best: the figures that kernels are measured against, in the same run.

#include <cstddef>
#include <cstdint>

#include "backend/cpu/thread_pool.h"

namespace yeoul::speed {

double now_seconds();

// Bytes a second read from DRAM by all threads of the pool: the best of 1, 4 and 8 prefetched
// streams a thread over `bytes` of memory.
double read_roof(ThreadPool& pool, const uint8_t* memory, size_t bytes);

// Multiply-adds a second, times two, of all threads: vdpbf16ps, or fused float32 where there is
// none.
double bf16_peak(ThreadPool& pool);
// Integer operations a second of vpdpbusd; 0 where the machine has none.
double int8_peak(ThreadPool& pool);

// oneDNN's bf16 product of [rows, inputs] and [outputs, inputs]; 0 where it is not built in.
double onednn_bf16(int threads, int64_t rows, int64_t inputs, int64_t outputs);

}  // namespace yeoul::speed
