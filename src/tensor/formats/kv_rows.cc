#include "tensor/formats/kv_rows.h"

#include <algorithm>
#include <cmath>

#include "tensor/formats/fp4_e2m1.h"
#include "tensor/formats/fp8_e4m3.h"
#include "tensor/formats/ue8m0.h"

namespace yeoul {
namespace {

float largest_magnitude(const float* x, int n, float floor) {
  float amax = floor;
  for (int i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  return amax;
}

uint8_t fp8_scale(const float* x) {
  return ue8m0_ceil(largest_magnitude(x, kFp8Group, 1e-4f) * (1.0f / 448.0f));
}

// 1 / 2^(code-127): exact, so that a product replaces the division.
float inverse_scale(uint8_t code) {
  return ue8m0_to_float(static_cast<uint8_t>(254 - code));
}

void pack_e2m1(const float* x, int n, float scale, uint8_t* codes) {
  for (int i = 0; i < n; i += 2) {
    const uint8_t low = to_e2m1(x[i] / scale), high = to_e2m1(x[i + 1] / scale);
    codes[i / 2] = static_cast<uint8_t>(low | (high << 4));
  }
}

void unpack_e2m1(const uint8_t* codes, int n, float scale, float* out) {
  for (int i = 0; i < n; i += 2) {
    out[i] = kE2m1Values[codes[i / 2] & 15] * scale;
    out[i + 1] = kE2m1Values[codes[i / 2] >> 4] * scale;
  }
}

}  // namespace

void encode_fp8_row(std::span<const float> x, Fp8Row out) {
  for (size_t g = 0; g * kFp8Group < x.size(); ++g) {
    const float* group = x.data() + g * kFp8Group;
    const uint8_t scale = fp8_scale(group);
    const float inverse = inverse_scale(scale);
    out.scales[g] = scale;
    for (int i = 0; i < kFp8Group; ++i) out.codes[g * kFp8Group + i] = to_e4m3(group[i] * inverse);
  }
}

void decode_fp8_row(const uint8_t* codes, const uint8_t* scales, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = e4m3_to_float(codes[i]) * ue8m0_to_float(scales[i / kFp8Group]);
  }
}

void quantize_fp8(std::span<float> x) {
  for (size_t g = 0; g * kFp8Group < x.size(); ++g) {
    float* group = x.data() + g * kFp8Group;
    const uint8_t code = fp8_scale(group);
    const float inverse = inverse_scale(code), scale = ue8m0_to_float(code);
    for (int i = 0; i < kFp8Group; ++i) {
      group[i] = e4m3_to_float(to_e4m3(group[i] * inverse)) * scale;
    }
  }
}

void encode_index_row(std::span<const float> x, uint8_t* codes, uint8_t* scales) {
  for (size_t g = 0; g * kIndexGroup < x.size(); ++g) {
    const float* group = x.data() + g * kIndexGroup;
    const float amax = largest_magnitude(group, kIndexGroup, 6 * 0x1p-126f);
    const uint8_t scale = ue8m0_ceil(amax * (1.0f / 6.0f));
    scales[g] = scale;
    pack_e2m1(group, kIndexGroup, ue8m0_to_float(scale), codes + g * kIndexGroup / 2);
  }
}

void decode_index_row(const uint8_t* codes, const uint8_t* scales, std::span<float> out) {
  for (size_t g = 0; g * kIndexGroup < out.size(); ++g) {
    unpack_e2m1(codes + g * kIndexGroup / 2, kIndexGroup, ue8m0_to_float(scales[g]),
                out.data() + g * kIndexGroup);
  }
}

void encode_compressed_row(std::span<const float> x, uint8_t* codes, uint8_t* scales) {
  for (size_t g = 0; g * kCompressedGroup < x.size(); ++g) {
    const float* group = x.data() + g * kCompressedGroup;
    const float amax = largest_magnitude(group, kCompressedGroup, 6 * 0x1p-9f);
    const uint8_t scale = to_e4m3(amax / 6.0f);
    scales[g] = scale;
    pack_e2m1(group, kCompressedGroup, e4m3_to_float(scale), codes + g * kCompressedGroup / 2);
  }
}

void decode_compressed_row(const uint8_t* codes, const uint8_t* scales, std::span<float> out) {
  for (size_t g = 0; g * kCompressedGroup < out.size(); ++g) {
    unpack_e2m1(codes + g * kCompressedGroup / 2, kCompressedGroup, e4m3_to_float(scales[g]),
                out.data() + g * kCompressedGroup);
  }
}

}  // namespace yeoul
