#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/config.h"
#include "tensor/dtype.h"

namespace yeoul {

// Which part of the model a tensor belongs to; the parts are placed in memory differently.
enum class TensorOwner : uint8_t {
  kEmbedHeadNorm,   // embed.weight, head.weight, norm.weight
  kEncoder,         // layers before the first decoder layer, without Engram
  kDecoder,         // the other layers, without Engram
  kEngramResident,  // engram.wkv, q_weight, k_weight
  kEngramTables,    // engram.embed: read a few rows at a time
  kDspark,          // mtp.*
  kVision,          // vision.*, aligner.*, image_start, image_end, image_newline
  kCount,
};

// "embed_head_norm", "encoder", "decoder", "engram_resident", "engram_tables", "dspark", "vision".
std::string_view to_string(TensorOwner owner);

struct ExpectedTensor {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<int64_t> shape;  // matrices are [out, in]; I8 packs two FP4 inputs a byte
  TensorOwner owner = TensorOwner::kEmbedHeadNorm;
};

// Every tensor a checkpoint of this config holds, none else: the release's table of names, dtypes
// and shapes, for any widths. Needs config.engram_num_embeddings. The release: 96,085 entries.
std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config);

}  // namespace yeoul
