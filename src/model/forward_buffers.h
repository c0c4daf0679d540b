#pragma once

#include <cstdint>
#include <vector>

#include "backend/ops.h"
#include "checkpoint/config.h"
#include "tensor/formats/bf16.h"

namespace yeoul {

struct ForwardLimits;

// Rows of one slot that wait between two layer ranges.
struct ParkedRows {
  int64_t position = 0;
  int32_t num_rows = 0;  // 0: nothing parked
  int32_t next_layer = 0;
  std::vector<Bf16> streams;
  std::vector<float> pre;
  std::vector<int32_t> selected, num_selected, pool, num_pool;
  std::vector<int32_t> compressed_ids;
  std::vector<int32_t> history;
};

// Every buffer of the forward pass, sized once. Letters as in backend/ops.h. Arrays over [T] are
// indexed by step row and keep their meaning through the layers; arrays over [n] belong to the op
// at hand and hold its rows one after another.
struct ForwardBuffers {
  ForwardBuffers(const ModelConfig& config, const ForwardLimits& limits);

  // Of the step.
  std::vector<int64_t> positions;                         // [T]
  std::vector<int32_t> item_of;                           // [T]
  std::vector<int32_t> identity;                          // [T] 0, 1, 2, ...
  std::vector<uint8_t> is_image;                          // [T]
  std::vector<int32_t> compressed_ids;                    // [T]
  std::vector<float> window_cosine, window_sine;          // [T, R/2]
  std::vector<float> compressed_cosine, compressed_sine;  // [T, R/2]
  std::vector<Bf16> streams;                              // [T, C, H]
  std::vector<float> pre;                                 // [T, C], carried from half to half
  std::vector<float> attn_pre;                            // [T, C]
  std::vector<float> post;                                // [T, C]
  std::vector<float> comb;                                // [T, C, C]
  std::vector<int32_t> selected, num_selected;            // [T, top_k], [T]
  std::vector<int32_t> pool, num_pool;                    // [T, candidate_topk_blocks], [T]

  // Of one op.
  std::vector<Bf16> hidden;                         // [n, H] normed input
  std::vector<Bf16> source_hidden;                  // [n, H] of rows that only feed the KV store
  std::vector<Bf16> out;                            // [n, H] result of a half
  std::vector<Bf16> q_low;                          // [n, q_lora]
  std::vector<Bf16> queries;                        // [n, N, D]
  std::vector<Bf16> heads;                          // [n, N, D]
  std::vector<Bf16> grouped;                        // [n, groups * o_lora]
  std::vector<Bf16> kv;                             // [n, D] window rows or latents
  std::vector<Bf16> keys;                           // [n, hd]
  std::vector<float> pair_values;                   // [n, 2 D] compressor values, then scores
  std::vector<CompressPair> pairs;                  // [n]
  std::vector<CompressedRowPlace> places;           // [n]
  std::vector<int64_t> latent_positions;            // [n]
  std::vector<float> latent_cosine, latent_sine;    // [n, R/2]
  std::vector<Bf16> index_queries;                  // [n, I, hd]
  std::vector<Bf16> index_weights;                  // [n, I]
  std::vector<int32_t> experts;                     // [n, K]
  std::vector<float> expert_weights;                // [n, K]
  std::vector<int32_t> foreseen;                    // [n, K], of the layer behind
  std::vector<float> foreseen_weights;              // [n, K]
  std::vector<int32_t> expert_rows, expert_places;  // [n * K]
  std::vector<int32_t> expert_ids, expert_begins;   // up to [E], [E + 1]
  std::vector<Bf16> expert_out;                     // [n, K, H]
  std::vector<Bf16> shared;                         // [n, H]

  // Engram rows of the step: [engram layer][T][columns].
  std::vector<int64_t> engram_rows;
  std::vector<uint8_t> engram_codes;   // [.., width]
  std::vector<uint8_t> engram_scales;  // [.., width/32]
  std::vector<Bf16> engram_input;      // [n, columns * width]
  std::vector<Bf16> engram_kv;         // [n, (C+1) H]

  std::vector<float> logits;       // [logit rows, V]
  std::vector<ParkedRows> parked;  // [slots]

  int64_t num_bytes() const;
};

}  // namespace yeoul
