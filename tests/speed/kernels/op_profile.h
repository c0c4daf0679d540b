#pragma once

#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/cpu/thread_pool.h"

namespace yeoul::speed {

// Prints what each operation of one true-width layer costs for `rows` rows of one sequence with
// `context` positions: microseconds, GB/s of weights, GFLOP/s.
void print_op_profile(ThreadPool& pool, Isa isa, int64_t rows, int64_t context);

// Seconds to score `keys` index keys for one query, fill the pool and select the best 512.
double index_seconds(ThreadPool& pool, Isa isa, int64_t keys);

}  // namespace yeoul::speed
