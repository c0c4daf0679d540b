#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "model/forward.h"

namespace yeoul {

// A model with everything it needs, for tests that drive the forward pass without an engine. Slot s
// owns pages of its own, scattered over the store; sequences advance by step().
class ModelHarness {
 public:
  struct Options {
    std::string checkpoint = "models/tiny-random";
    std::string engram_map = "tests/golden/data/tiny_engram.json";  // key "token_map"
    Accumulate accumulate = Accumulate::kFloat;
    int threads = 1;
    int32_t slots = 1;
    int32_t rows_max = 256;
    int32_t parked_rows_max = 0;
    int64_t context_max = 2304;
    ExpertStoreOptions experts = {};
    EngramRowsOptions engram = {};  // rows_max is that of the steps
    // Page numbers of all slots are dealt out in an order drawn from this.
    uint64_t page_seed = 0;
  };
  explicit ModelHarness(const Options& options);

  // One run of tokens of one sequence inside a step.
  struct Feed {
    int32_t slot = 0;
    std::vector<TokenId> tokens;
    int64_t cone_end = -1;
    LogitRows logits = LogitRows::kEvery;
    int32_t layer_begin = 0;
    int32_t layer_end = -1;     // -1: all
    int32_t num_accepted = -1;  // of the tokens; -1: all
    std::vector<uint8_t> is_image;
    std::vector<Bf16> embeds;  // [tokens, H]
  };
  // Runs the feeds as one step and commits. Returns the logits of each feed, row after row.
  std::vector<std::vector<std::vector<float>>> step(const std::vector<Feed>& feeds,
                                                    const Trace* trace = nullptr);

  // Prefill in chunks of `chunk` (0: as large as a step allows) with logits of every row.
  std::vector<std::vector<float>> prefill(int32_t slot, std::span<const TokenId> tokens,
                                          int64_t chunk = 0);
  // The same with the cone: logits of the last row only.
  std::vector<float> prefill_cone(int32_t slot, std::span<const TokenId> tokens, int64_t chunk = 0);
  std::vector<float> decode(int32_t slot, TokenId token);

  void reset(int32_t slot);
  int64_t length(int32_t slot) const { return lengths_[static_cast<size_t>(slot)]; }
  std::span<const int32_t> pages(int32_t slot) const;
  void set_length(int32_t slot, int64_t length) { lengths_[static_cast<size_t>(slot)] = length; }

  const ModelConfig& config() const { return weights_->config(); }
  // Outcome of feed i of the last step.
  const ItemOutcome& outcome(size_t i) { return forward_->outcomes()[i]; }
  Forward& forward() { return *forward_; }
  KvStore& kv() { return *kv_; }
  const Weights& weights() const { return *weights_; }

 private:
  Options options_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<EngramHash> engram_hash_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Forward> forward_;
  std::vector<int64_t> lengths_;
  std::vector<std::vector<int32_t>> pages_;
};

// Index of the largest value; the smaller index on a tie.
TokenId argmax(std::span<const float> values);

}  // namespace yeoul
