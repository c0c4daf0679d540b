#pragma once

// Row formats of the KV store and of quantised linear inputs: part of the trained model (model.md
// sections 3.1, 3.4, 3.6, 6.1). Each encode is the model's fake quantiser; decode gives exactly the
// values the model computes with, all representable in BF16. Widths are multiples of the group.

#include <cstdint>
#include <span>

namespace yeoul {

// Values of a row of one head that the buffers of kernels have room for; the release has 512 (keys
// and values) and 128 (index keys).
inline constexpr int kHeadDimMax = 1024;

// FP8 with one UE8M0 scale per 32 values: linear inputs and window rows. Per group:
// amax = max(|x|, 1e-4); scale = 2^ceil(log2(amax * fl32(1/448))); code = e4m3(x / scale).
inline constexpr int kFp8Group = 32;
struct Fp8Row {
  uint8_t* codes;   // [width]
  uint8_t* scales;  // [width / 32]
};
void encode_fp8_row(std::span<const float> x, Fp8Row out);
void decode_fp8_row(const uint8_t* codes, const uint8_t* scales, std::span<float> out);
// x rounded to what decode(encode(x)) gives, in place.
void quantize_fp8(std::span<float> x);

// FP4 with one UE8M0 scale per 32 values: index queries and keys. amax floor 6 * 2^-126,
// scale = 2^ceil(log2(amax * fl32(1/6))).
inline constexpr int kIndexGroup = 32;
void encode_index_row(std::span<const float> x, uint8_t* codes /*[width/2]*/,
                      uint8_t* scales /*[width/32]*/);
void decode_index_row(const uint8_t* codes, const uint8_t* scales, std::span<float> out);

// FP4 with one e4m3 scale per 16 values: compressed KV rows. amax floor 6 * 2^-9,
// scale = e4m3(amax / 6).
inline constexpr int kCompressedGroup = 16;
void encode_compressed_row(std::span<const float> x, uint8_t* codes /*[width/2]*/,
                           uint8_t* scales /*[width/16]*/);
void decode_compressed_row(const uint8_t* codes, const uint8_t* scales, std::span<float> out);

}  // namespace yeoul
