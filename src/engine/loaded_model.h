#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/cpu/thread_placement.h"
#include "backend/profiled_ops.h"
#include "base/result.h"
#include "engine/memory_plan.h"
#include "model/forward.h"

namespace yeoul {

struct LoadOptions {
  MemoryOptions memory;
  Accumulate accumulate = Accumulate::kFloat;
  Isa isa = best_isa();
  Pin pin = Pin::kAuto;
  StepProfile* profile = nullptr;         // filled by every step, where set; borrowed
  std::vector<int32_t> engram_token_map;  // token id -> compressed id, from the tokenizer
  LoadProgress progress;
};

// A checkpoint in memory with all that a forward pass needs, in the order of creation. Owns
// everything; thread-confined to the engine thread once loaded.
class LoadedModel {
 public:
  static Result<std::unique_ptr<LoadedModel>> load(std::shared_ptr<const Checkpoint> checkpoint,
                                                   LoadOptions options);

  const ModelConfig& config() const { return weights_->config(); }
  const MemoryPlan& plan() const { return plan_; }
  const char* numerics_id() const { return ops_->numerics_id(); }
  const std::string& identity() const { return identity_; }  // of the checkpoint
  const Weights& weights() const { return *weights_; }
  Forward& forward() { return *forward_; }
  KvStore& kv() { return *kv_; }

 private:
  LoadedModel() = default;
  MemoryPlan plan_;
  std::string identity_;
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<EngramHash> engram_hash_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<ProfiledOps> profiled_ops_;  // where a profile was asked for
  SteadyClock clock_;
  std::unique_ptr<KvStore> kv_;
  std::unique_ptr<Forward> forward_;
};

}  // namespace yeoul
