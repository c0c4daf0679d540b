#pragma once

// Elementary functions that give the same bits on every machine: built from IEEE additions,
// multiplications and divisions only (the build forbids contraction), never from libm. Used by the
// model and the sampler alike. docs/numerics.md has the derivations and measured errors.

namespace yeoul {

// Errors below 2 units in the last place of the result type.
double exp_double(double x);    // underflows to 0 below -745, overflows to inf above 709.78
double log_double(double x);    // x > 0, normal; log(0) = -inf, log(<0) = NaN
double log1p_double(double x);  // 0 <= x <= 1
void sincos_double(double x, double* sine, double* cosine);  // |x| <= 2^21

// exp in float32 with fused steps, flushed to zero below -87.3; x <= 88. 2 ulp.
float exp_float(float x);

// 1 / (1 + e^-x), x / (1 + e^-x) and log(1 + e^x), in double inside, rounded once to float32.
float sigmoid(float x);
float silu(float x);
float softplus(float x);

}  // namespace yeoul
