// Number formats over all their codes and at every tie.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/counter_rng.h"
#include "tensor/formats/bf16.h"
#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Bf16, every_code_survives_widening_and_rounding) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Bf16 code{static_cast<uint16_t>(bits)};
    const float wide = to_float(code);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(to_float(to_bf16(wide))));
    } else {
      ASSERT_EQ(to_bf16(wide).bits, bits);
    }
  }
}

TEST(Bf16, ties_go_to_the_even_code_and_everything_else_to_the_nearest) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const uint32_t tie = bits << 16 | 0x8000u;
    const uint32_t even = bits + (bits & 1);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie)).bits, even);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie - 1)).bits, bits);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie + 1)).bits, bits + 1);
    ASSERT_EQ(to_bf16(std::bit_cast<float>(tie | 0x80000000u)).bits, even | 0x8000u);
  }
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), kInfinity);
  // A NaN whose payload lies in the dropped half stays a NaN.
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0xFFFFFFFFu)))));
}

// Values 0, 1, 2, ... of the positive codes, by the definition of the format.
double e4m3_by_definition(int code) {
  const int exponent = code >> 3, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}

TEST(Fp8E4m3, every_code_has_its_value_and_survives_a_round_trip) {
  for (int code = 0; code < 256; ++code) {
    const float found = e4m3_to_float(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(found));
      continue;
    }
    const double magnitude = e4m3_by_definition(code & 0x7F);
    EXPECT_EQ(static_cast<double>(found), code < 128 ? magnitude : -magnitude);
    EXPECT_EQ(to_e4m3(found), code);
  }
}

TEST(Fp8E4m3, ties_go_to_the_even_code_and_neighbours_of_ties_to_the_nearest) {
  for (int code = 0; code < 126; ++code) {
    const auto tie =
        static_cast<float>((e4m3_by_definition(code) + e4m3_by_definition(code + 1)) / 2);
    EXPECT_EQ(to_e4m3(tie), code + (code & 1)) << code;
    EXPECT_EQ(to_e4m3(std::nextafter(tie, 0.0f)), code) << code;
    EXPECT_EQ(to_e4m3(std::nextafter(tie, kInfinity)), code + 1) << code;
    EXPECT_EQ(to_e4m3(-tie), 128 + code + (code & 1)) << code;
  }
}

TEST(Fp8E4m3, saturates_and_keeps_what_is_not_a_number) {
  for (const float x : {448.0f, 449.0f, 464.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(to_e4m3(x), 0x7E);
    EXPECT_EQ(to_e4m3(-x), 0xFE);
  }
  EXPECT_EQ(to_e4m3(kNan), 0x7F);
  EXPECT_EQ(to_e4m3(1e-30f), 0);
  EXPECT_EQ(to_e4m3(-1e-30f), 0x80);
  EXPECT_EQ(to_e4m3(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Fp4E2m1, codes_ties_and_clamps) {
  for (int code = 0; code < 16; ++code) {
    if (code == 8) continue;  // a second zero, never produced
    EXPECT_EQ(to_e2m1(kE2m1Values[static_cast<size_t>(code)]), code);
    EXPECT_EQ(static_cast<float>(kE2m1Doubled[static_cast<size_t>(code)]),
              2 * kE2m1Values[static_cast<size_t>(code)]);
  }
  for (int code = 0; code < 7; ++code) {
    const auto at = static_cast<size_t>(code);
    const float tie = (kE2m1Values[at] + kE2m1Values[at + 1]) / 2;
    EXPECT_EQ(to_e2m1(tie), code + (code & 1)) << tie;
    EXPECT_EQ(to_e2m1(std::nextafter(tie, 0.0f)), code) << tie;
    EXPECT_EQ(to_e2m1(std::nextafter(tie, kInfinity)), code + 1) << tie;
  }
  EXPECT_EQ(to_e2m1(-0.25f), 0);  // rounds to zero, which has no sign
  EXPECT_EQ(to_e2m1(-0.0f), 0);
  EXPECT_EQ(to_e2m1(1e9f), 7);
  EXPECT_EQ(to_e2m1(-kInfinity), 15);
  EXPECT_EQ(to_e2m1(kNan) & 7, 7);
}

TEST(Ue8m0, every_code_is_a_power_of_two_and_ceil_finds_the_next_one) {
  for (int code = 0; code < 255; ++code) {
    EXPECT_EQ(ue8m0_to_float(static_cast<uint8_t>(code)), std::ldexp(1.0f, code - 127));
  }
  EXPECT_TRUE(std::isnan(ue8m0_to_float(255)));
  for (int code = 1; code < 254; ++code) {
    const float power = ue8m0_to_float(static_cast<uint8_t>(code));
    EXPECT_EQ(ue8m0_ceil(power), code);
    EXPECT_EQ(ue8m0_ceil(std::nextafter(power, kInfinity)), code + 1);
    EXPECT_EQ(ue8m0_ceil(1.5f * power), code + 1);
  }
}

}  // namespace
}  // namespace yeoul
