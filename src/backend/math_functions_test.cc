#include "backend/math_functions.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/counter_rng.h"

namespace yeoul {
namespace {

double uniform(uint64_t i, double low, double high) {
  return low + (high - low) * unit_interval(mix64(i));
}

// Distance in units in the last place of `expected`.
template <typename T>
double ulps(T found, long double expected) {
  const T near = static_cast<T>(expected);
  const T unit =
      std::nextafter(std::fabs(near), std::numeric_limits<T>::infinity()) - std::fabs(near);
  return static_cast<double>(std::fabs(static_cast<long double>(found) - expected) /
                             static_cast<long double>(unit));
}

// The reference is the 80-bit or 128-bit long double of the test machine.
TEST(MathFunctions, double_functions_stay_within_two_ulp) {
  double worst_exp = 0, worst_log = 0, worst_log1p = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const double x = uniform(i, -700, 700);
    worst_exp = std::max(worst_exp, ulps(exp_double(x), expl(x)));
    const double y = std::exp(uniform(i, -300, 300));
    worst_log = std::max(worst_log, ulps(log_double(y), logl(y)));
    const double z = uniform(i, 0, 1);
    worst_log1p = std::max(worst_log1p, ulps(log1p_double(z), log1pl(z)));
  }
  EXPECT_LT(worst_exp, 2);
  EXPECT_LT(worst_log, 2);
  EXPECT_LT(worst_log1p, 2);
}

TEST(MathFunctions, sine_and_cosine_keep_absolute_precision_up_to_two_million) {
  double worst = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const double x = static_cast<float>(uniform(i, -2097152, 2097152));
    double s = 0, c = 0;
    sincos_double(x, &s, &c);
    worst = std::max({worst, static_cast<double>(std::fabs(static_cast<long double>(s) - sinl(x))),
                      static_cast<double>(std::fabs(static_cast<long double>(c) - cosl(x)))});
  }
  EXPECT_LT(worst, 3e-16);
}

TEST(MathFunctions, float_exp_stays_within_two_ulp) {
  double worst = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const float x = static_cast<float>(uniform(i, -87, 88));
    worst = std::max(worst, ulps(exp_float(x), expl(x)));
  }
  EXPECT_LT(worst, 2);
}

TEST(MathFunctions, edges_are_defined) {
  EXPECT_EQ(exp_double(0), 1);
  EXPECT_EQ(exp_double(-1000), 0);
  EXPECT_TRUE(std::isinf(exp_double(1000)));
  EXPECT_TRUE(std::isnan(exp_double(std::nan(""))));
  EXPECT_EQ(exp_double(-745), std::exp(-745.0));
  EXPECT_EQ(log_double(1), 0);
  EXPECT_TRUE(std::isinf(log_double(0)));
  EXPECT_TRUE(std::isnan(log_double(-1)));
  EXPECT_EQ(exp_float(0), 1);
  EXPECT_EQ(exp_float(-88), 0);
  EXPECT_TRUE(std::isnan(exp_float(std::nanf(""))));
  EXPECT_EQ(softplus(100.0f), 100.0f);
  EXPECT_GT(softplus(-100.0f), 0.0f);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
  EXPECT_EQ(silu(-1000.0f), -0.0f);
}

}  // namespace
}  // namespace yeoul
