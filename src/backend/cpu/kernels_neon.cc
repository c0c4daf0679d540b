// NEON: four registers hold the 16 lanes.

#include <arm_neon.h>

#include "backend/cpu/linear_by_lanes.h"

namespace yeoul::cpu {
namespace {

struct NeonLanes {
  float32x4_t r[4];

  static NeonLanes zero() {
    const float32x4_t z = vdupq_n_f32(0);
    return {{z, z, z, z}};
  }
  static NeonLanes load(const float* x) {
    return {{vld1q_f32(x), vld1q_f32(x + 4), vld1q_f32(x + 8), vld1q_f32(x + 12)}};
  }
  void store(float* x) const {
    for (int i = 0; i < 4; ++i) vst1q_f32(x + 4 * i, r[i]);
  }
  void add_product(const NeonLanes& a, const NeonLanes& b) {
    for (int i = 0; i < 4; ++i) r[i] = vfmaq_f32(r[i], a.r[i], b.r[i]);
  }

  static uint32x4_t pairs(const void* x, int quarter) {
    return vreinterpretq_u32_u8(vld1q_u8(static_cast<const uint8_t*>(x) + 16 * quarter));
  }
  static float32x4_t odd(uint32x4_t p) {
    return vreinterpretq_f32_u32(vandq_u32(p, vdupq_n_u32(0xFFFF0000u)));
  }
  static float32x4_t even(uint32x4_t p) { return vreinterpretq_f32_u32(vshlq_n_u32(p, 16)); }
  static NeonLanes odd_bf16(const uint16_t* x) {
    return {{odd(pairs(x, 0)), odd(pairs(x, 1)), odd(pairs(x, 2)), odd(pairs(x, 3))}};
  }
  static NeonLanes even_bf16(const uint16_t* x) {
    return {{even(pairs(x, 0)), even(pairs(x, 1)), even(pairs(x, 2)), even(pairs(x, 3))}};
  }

  static void expand_bf16(const uint8_t* values, float* out) {
    for (int i = 0; i < 4; ++i) {
      const uint32x4_t p = pairs(values, i);
      vst1q_f32(out + 4 * i, odd(p));
      vst1q_f32(out + 16 + 4 * i, even(p));
    }
  }

  // Eight e4m3 codes -> float16 of 2^-8 times their values, denormals included, then float32.
  static void store_scaled(uint8x8_t codes, float32x4_t scale, float* out) {
    const uint16x8_t upper = vshll_n_u8(codes, 8);
    const uint16x8_t sign = vandq_u16(upper, vdupq_n_u16(0x8000));
    const uint16x8_t rest = vshrq_n_u16(vandq_u16(upper, vdupq_n_u16(0x7F00)), 1);
    const float16x8_t halves = vreinterpretq_f16_u16(vorrq_u16(sign, rest));
    vst1q_f32(out, vmulq_f32(vcvt_f32_f16(vget_low_f16(halves)), scale));
    vst1q_f32(out + 4, vmulq_f32(vcvt_f32_f16(vget_high_f16(halves)), scale));
  }
  static void expand_fp8(const uint8_t* codes, float scale, float* out) {
    const float32x4_t factor = vdupq_n_f32(scale * 256.0f);
    const uint8x16x2_t split = vld2q_u8(codes);  // even codes, odd codes
    store_scaled(vget_low_u8(split.val[1]), factor, out);
    store_scaled(vget_high_u8(split.val[1]), factor, out + 8);
    store_scaled(vget_low_u8(split.val[0]), factor, out + 16);
    store_scaled(vget_high_u8(split.val[0]), factor, out + 24);
  }

  // Byte `at` of each dword, doubled e2m1 codes, as float.
  template <int kAt>
  static float32x4_t byte_of(int8x16_t codes) {
    const int32x4_t dwords = vreinterpretq_s32_s8(codes);
    if constexpr (kAt == 3) {
      return vcvtq_f32_s32(vshrq_n_s32(dwords, 24));
    } else {
      return vcvtq_f32_s32(vshrq_n_s32(vshlq_n_s32(dwords, 24 - 8 * kAt), 24));
    }
  }
  static void expand_fp4(const uint8_t* codes, const float* scales, float* out) {
    const int8_t doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    const int8x16_t table = vld1q_s8(doubled);
    for (int i = 0; i < 4; ++i) {
      const uint8x16_t bytes = vld1q_u8(codes + 16 * i);
      const int8x16_t low = vqtbl1q_s8(table, vandq_u8(bytes, vdupq_n_u8(15)));
      const int8x16_t high = vqtbl1q_s8(table, vshrq_n_u8(bytes, 4));
      // Lane l lies under the scale of columns 8l .. 8l+7: four lanes a scale.
      const float32x4_t scale = vdupq_n_f32(0.5f * scales[i]);
      float* to = out + 4 * i;
      vst1q_f32(to, vmulq_f32(byte_of<2>(low), scale));
      vst1q_f32(to + 16, vmulq_f32(byte_of<0>(low), scale));
      vst1q_f32(to + 32, vmulq_f32(byte_of<2>(high), scale));
      vst1q_f32(to + 48, vmulq_f32(byte_of<0>(high), scale));
      vst1q_f32(to + 64, vmulq_f32(byte_of<3>(low), scale));
      vst1q_f32(to + 80, vmulq_f32(byte_of<1>(low), scale));
      vst1q_f32(to + 96, vmulq_f32(byte_of<3>(high), scale));
      vst1q_f32(to + 112, vmulq_f32(byte_of<1>(high), scale));
    }
  }
};

}  // namespace

const Kernels* neon_kernels() {
  static const Kernels kernels{LinearByLanes<NeonLanes>::run, scalar_kernels().load_operand,
                               scalar_kernels().gate_up, nullptr, nullptr};
  return &kernels;
}

}  // namespace yeoul::cpu
