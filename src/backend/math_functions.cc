#include "backend/math_functions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace yeoul {
namespace {

// Adding and subtracting 1.5 * 2^52 rounds a double of magnitude below 2^51 to the nearest integer.
constexpr double kRoundToInteger = 0x1.8p52;

double round_to_integer(double x) {
  return (x + kRoundToInteger) - kRoundToInteger;
}

double power_of_two(int64_t exponent) {  // -1022 .. 1023
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// log((1 + s) / (1 - s)) = 2 (s + s^3/3 + s^5/5 + ...), `terms` of them, from the smallest.
double log_ratio(double s, int terms) {
  const double square = s * s;
  double sum = 0;
  for (int k = terms; k >= 1; --k) sum = square * (1.0 / (2 * k + 1) + sum);
  return 2 * (s + s * sum);
}

}  // namespace

double exp_double(double x) {
  if (x != x) return x;
  if (x > 709.78) return std::numeric_limits<double>::infinity();
  if (x < -745.2) return 0;
  // x = n ln 2 + r, |r| <= 0.347; ln 2 in two parts, n times the first (33 bits) is exact.
  const double n = round_to_integer(x * 0x1.71547652b82fep+0);
  const double r = (x - n * 0x1.62e42fef00000p-1) - n * 0x1.473de6af278edp-34;
  // Taylor to r^13: the rest is below 0.347^14 / 14! = 4e-18.
  double sum = 0;
  for (int k = 13; k >= 2; --k) sum = (1.0 + sum) * r / k;
  const double e = 1.0 + (r + r * sum);
  // Two factors, so that results in the denormal range round once.
  const int64_t whole = static_cast<int64_t>(n), half = whole / 2;
  return e * power_of_two(half) * power_of_two(whole - half);
}

double log_double(double x) {
  if (!(x > 0)) {
    return x == 0 ? -std::numeric_limits<double>::infinity()
                  : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == std::numeric_limits<double>::infinity()) return x;
  // x = m 2^n with m in [0.707, 1.414): s = (m-1)/(m+1) is at most 0.1716, s^24 / 25 below 2e-20.
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  int64_t n = static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++n;
  }
  const double log_m = log_ratio((m - 1) / (m + 1), 12);
  const double exponent = static_cast<double>(n);
  return exponent * 0x1.62e42fef00000p-1 + (exponent * 0x1.473de6af278edp-34 + log_m);
}

// log(1 + x) = log((1 + s) / (1 - s)) with s = x / (2 + x) <= 1/3; s^36 / 37 is below 2e-19.
double log1p_double(double x) {
  return log_ratio(x / (2 + x), 18);
}

void sincos_double(double x, double* sine, double* cosine) {
  // x = n pi/2 + r; pi/2 in three parts, n (at most 21 bits) times a 33-bit part is exact.
  const double n = round_to_integer(x * 0x1.45f306dc9c883p-1);
  const double r =
      ((x - n * 0x1.921fb54400000p+0) - n * 0x1.0b4611a600000p-34) - n * 0x1.3198a2e037073p-69;
  // Taylor, |r| <= 0.786: the rest is below 0.786^19 / 19! = 1e-19 and 0.786^18 / 18! = 2e-18.
  const double square = r * r;
  double s = 0, c = 0;
  for (int k = 17; k >= 3; k -= 2) s = -square / (k * (k - 1)) * (1 + s);
  for (int k = 16; k >= 4; k -= 2) c = -square / (k * (k - 1)) * (1 + c);
  const double sin_r = r + r * s;
  const double cos_r = 1 - square / 2 * (1 + c);
  switch (static_cast<int64_t>(n) & 3) {
    case 0:
      *sine = sin_r, *cosine = cos_r;
      break;
    case 1:
      *sine = cos_r, *cosine = -sin_r;
      break;
    case 2:
      *sine = -sin_r, *cosine = -cos_r;
      break;
    default:
      *sine = -cos_r, *cosine = sin_r;
      break;
  }
}

float exp_float(float x) {
  if (!(x >= -87.3f)) return x == x ? 0.0f : x;
  if (x > 88.0f) x = 88.0f;
  const float n = (x * 0x1.715476p+0f + 0x1.8p23f) - 0x1.8p23f;
  float r = std::fma(n, -0x1.62e4p-1f, x);
  r = std::fma(n, -0x1.7f7d1cp-20f, r);
  // Taylor to r^7: the rest is below 0.347^8 / 8! = 5e-9.
  float p = 1.0f / 5040;
  p = std::fma(p, r, 1.0f / 720);
  p = std::fma(p, r, 1.0f / 120);
  p = std::fma(p, r, 1.0f / 24);
  p = std::fma(p, r, 1.0f / 6);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

float sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + exp_double(-static_cast<double>(x))));
}

float silu(float x) {
  const double wide = x;
  return static_cast<float>(wide / (1.0 + exp_double(-wide)));
}

float softplus(float x) {
  const double wide = x;
  const double tail = log1p_double(exp_double(wide < 0 ? wide : -wide));
  return static_cast<float>((wide > 0 ? wide : 0) + tail);
}

}  // namespace yeoul
