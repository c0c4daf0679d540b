#pragma once

#include <cstdint>
#include <span>

#include "backend/kv_view.h"
#include "backend/weight.h"
#include "tensor/formats/bf16.h"

namespace yeoul {

// The model's own operations at the size the model thinks in. Letters: T rows of the step, n rows
// at hand, C residual streams, H hidden, N heads, D head dim, R rope dim, I index heads, E experts,
// K experts a token, F expert width, V vocabulary. Orders of summation and rounding points:
// docs/numerics.md. Buffers must not alias unless said. Thread-confined to the engine thread;
// no call allocates once the workspace exists.

// Which rows of step-indexed arrays an op works on: ascending indices into [0, T).
using RowIndex = std::span<const int32_t>;

// X[t, c] = row of tokens[t] for all C copies; where embeds is set and dead[t], that row instead.
struct EmbedArgs {
  const Bf16* table;                // [V, H]
  std::span<const int32_t> tokens;  // [n]
  const Bf16* embeds;               // [n, H] or null
  const uint8_t* is_image;          // [n], 1 inside an image span
  int64_t hidden;
  int32_t copies;
  Bf16* streams;  // [n, C, H]
};

// mHC coefficients of the rows (model.md section 3.3), written at the rows' places.
struct MixesArgs {
  const Bf16* streams;  // [T, C, H]
  RowIndex rows;
  const float* fn;     // [2C + C*C, C*H]
  const float* base;   // [2C + C*C]
  const float* scale;  // [3]
  int64_t hidden;
  int32_t copies;
  int32_t sinkhorn_iters;
  float hc_eps;
  float norm_eps;
  float* pre;   // [T, C]
  float* post;  // [T, C]
  float* comb;  // [T, C, C], comb[j][k]
};

// out[i] = bf16(sum_c pre[r, c] * streams[r, c]), r = rows[i].
struct CollapseArgs {
  const Bf16* streams;  // [T, C, H]
  const float* pre;     // [T, C]
  RowIndex rows;
  int64_t hidden;
  int32_t copies;
  Bf16* out;  // [n, H]
};

// streams[r, k] = bf16(post[r, k] * x[i] + sum_j comb[r, j, k] * streams[r, j]), in place.
struct ExpandArgs {
  const Bf16* x;      // [n, H]
  const float* post;  // [T, C]
  const float* comb;  // [T, C, C]
  RowIndex rows;
  int64_t hidden;
  int32_t copies;
  Bf16* streams;  // [T, C, H]
};

// out = bf16(weight * x / sqrt(mean(x^2) + eps)). out may be x.
struct RmsNormArgs {
  const Bf16* x;  // [n, width]
  const Bf16* weight;
  int64_t num_rows;
  int64_t width;
  float eps;
  Bf16* out;
};

enum class ActivationRule : uint8_t {
  kAsIs,  // BF16 inputs
  kFp8,   // inputs rounded to FP8 in groups of 32 first (model.md section 3.1)
};

// y = x W^T. Exactly one of out_bf16, out_float is set.
struct LinearArgs {
  Weight weight;  // [out, in]
  ActivationRule activation;
  const Bf16* x;     // [n, in], rows x_stride apart
  int64_t x_stride;  // in elements
  int64_t num_rows;
  Bf16* out_bf16;    // [n, out], rows out_stride apart
  float* out_float;  // [n, out]
  int64_t out_stride;
};

// cosine[i, f], sine[i, f] of the angle fl32(position * frequency).
struct RopeTableArgs {
  std::span<const int64_t> positions;
  std::span<const float> frequencies;  // [R/2]
  float* cosine;                       // [n, R/2]
  float* sine;
};

// Rotates adjacent pairs of the last R channels of each head, in place; float32 products and sum,
// then BF16. `inverse` negates the angle.
struct RopeArgs {
  Bf16* x;  // [n, heads, width]
  int64_t num_rows;
  int64_t heads;
  int64_t width;
  int32_t rope_dim;
  const float* cosine;  // [T, R/2], indexed by rows
  const float* sine;
  RowIndex rows;
  bool inverse;
};

// Stages the FP8 window rows of a layer.
struct StageWindowArgs {
  const Bf16* kv;  // [n, D], rotated
  RowIndex rows;
  int32_t layer;
  KvView kv_view;
};

// Ratio-2 pooling of one group: softmax of (s0, s1) per channel, w0*c0 + w1*c1.
struct CompressPair {
  const float* c0;  // [D]
  const float* s0;
  const float* c1;
  const float* s1;
};
struct CompressPairsArgs {
  std::span<const CompressPair> pairs;
  int64_t width;
  Bf16* out;  // [pairs, D]
};

// Where one new compressed row goes.
struct CompressedRowPlace {
  uint8_t* codes;
  uint8_t* scales;
  uint8_t* key_codes;
  uint8_t* key_scales;
};
struct StoreCompressedArgs {
  const Bf16* latents;  // [m, D], rotated
  const Bf16* keys;     // [m, hd], rotated
  std::span<const CompressedRowPlace> places;
  int64_t head_dim;
  int64_t index_head_dim;
};

// Scores every visible compressed row of each query row and selects (model.md section 3.6).
struct IndexSelectArgs {
  const Bf16* queries;       // [n, I, hd], rotated; FP4-rounded inside
  const Bf16* head_weights;  // [n, I], output of weights_proj
  RowIndex rows;
  const int64_t* positions;  // [T]
  const int32_t* item_of;    // [T]
  SourceLayout source;
  KvView kv_view;
  int32_t heads;
  int32_t top_k;
  int32_t* selected;      // [T, top_k], ascending rows
  int32_t* num_selected;  // [T]
  // Two-level selection: the candidate source fills the pool, later layers stay inside it.
  enum class Pool : uint8_t { kNone, kFill, kUse } pool_mode;
  int32_t block_size;
  int32_t pool_max;   // blocks
  int32_t* pool;      // [T, pool_max], ascending block numbers
  int32_t* num_pool;  // [T]
  float* scores_out;  // [n, scores_stride] for traces, -inf where not scored; or null
  int64_t scores_stride;
};

// One joint softmax over window rows and selected compressed rows, one sink logit a head.
struct AttentionArgs {
  const Bf16* queries;  // [n, N, D]
  RowIndex rows;
  const int64_t* positions;
  const int32_t* item_of;
  int32_t layer;
  int32_t heads;
  const SourceLayout* source;   // null: window only
  const int32_t* selected;      // [T, top_k]
  const int32_t* num_selected;  // [T]
  int32_t top_k;
  const float* sink;  // [N]
  KvView kv_view;
  Bf16* out;  // [n, N, D]
};

// Scores sqrt(softplus(gate x)), top K of score + bias, normalised weights (model.md section 3.7).
struct RouteArgs {
  Weight gate;              // [E, H] BF16
  const float* bias;        // [E]
  const float* image_bias;  // [E], for rows inside an image span
  float gate_temp;
  const Bf16* x;  // [n, H]
  int64_t num_rows;
  RowIndex rows;
  const uint8_t* is_image;  // [T]
  int32_t num_chosen;       // K
  bool normalize;
  float scaling;
  int32_t* experts;   // [n, K], best first
  float* weights;     // [n, K]
  float* scores_out;  // [n, E] for traces, or null
};

struct ExpertWeights {
  Weight w1, w2, w3;  // [F, H], [H, F], [F, H]
};

// y[p] = w2 bf16(silu(min(w1 x, limit)) * clamp(w3 x, +-limit) * weight) for the rows of one
// expert. Gate and up inputs are FP8-rounded, so is the product.
struct ExpertArgs {
  ExpertWeights expert;
  const Bf16* x;                    // [n, H]
  std::span<const int32_t> rows;    // rows of x
  std::span<const int32_t> places;  // where each row's output goes in out; may be rows itself
  const float* weights;             // by place, or null for weight 1
  float limit;
  Bf16* out;  // [places, H]
};

// out[i] = bf16(sum over the row's K places, ascending expert id, + shared[i]).
struct CombineArgs {
  const Bf16* expert_out;  // [n, K, H]
  const int32_t* experts;  // [n, K]
  const Bf16* shared;      // [n, H]
  int64_t num_rows;
  int64_t hidden;
  int32_t num_chosen;
  Bf16* out;          // [n, H]
  float* routed_out;  // [n, H] for traces, or null
};

// rows of an Engram table as read from the file -> BF16 inputs of engram.wkv.
struct EngramDecodeArgs {
  const uint8_t* codes;   // [n * columns, width] e4m3
  const uint8_t* scales;  // [n * columns, width/32] ue8m0
  int64_t num_rows;       // n * columns
  int64_t width;
  Bf16* out;
};

// streams[r, c] += gate * V (model.md section 4.3), rows inside an image span unchanged.
struct EngramInjectArgs {
  const Bf16* kv;        // [n, (C+1) * H]: C keys, then the value
  const Bf16* q_weight;  // [C, H]
  const Bf16* k_weight;  // [C, H]
  RowIndex rows;
  const uint8_t* is_image;  // [T]
  int64_t hidden;
  int32_t copies;
  float eps;
  Bf16* streams;    // [T, C, H]
  float* gate_out;  // [n, C] for traces, or null
};

class Ops {
 public:
  virtual ~Ops() = default;
  virtual const char* numerics_id() const = 0;

  virtual void embed(const EmbedArgs& args) = 0;
  virtual void mixes(const MixesArgs& args) = 0;
  virtual void collapse(const CollapseArgs& args) = 0;
  virtual void expand(const ExpandArgs& args) = 0;
  virtual void rms_norm(const RmsNormArgs& args) = 0;
  virtual void linear(const LinearArgs& args) = 0;
  virtual void rope_table(const RopeTableArgs& args) = 0;
  virtual void rope(const RopeArgs& args) = 0;
  virtual void stage_window(const StageWindowArgs& args) = 0;
  virtual void compress_pairs(const CompressPairsArgs& args) = 0;
  virtual void store_compressed(const StoreCompressedArgs& args) = 0;
  virtual void index_select(const IndexSelectArgs& args) = 0;
  virtual void attention(const AttentionArgs& args) = 0;
  virtual void route(const RouteArgs& args) = 0;
  virtual void expert(const ExpertArgs& args) = 0;
  virtual void combine(const CombineArgs& args) = 0;
  virtual void engram_decode(const EngramDecodeArgs& args) = 0;
  virtual void engram_inject(const EngramInjectArgs& args) = 0;
};

}  // namespace yeoul
