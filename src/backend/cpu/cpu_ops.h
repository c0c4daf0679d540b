#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cpu/aligned_buffer.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/thread_pool.h"
#include "backend/ops.h"

namespace yeoul {

// Upper bounds of what one step brings; the workspace is sized from them.
struct OpsLimits {
  int64_t linear_inputs_max = 0;  // widest input of any linear layer
  int64_t hidden = 0;
  int32_t copies = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t window = 0;
  int32_t top_k = 0;
  int32_t index_heads = 0;
  int32_t index_head_dim = 0;
  int64_t index_rows_max = 0;  // compressed rows a sequence may have
  int32_t block_size = 0;      // of candidate blocks
  int32_t experts = 0;
  int64_t expert_width = 0;
};

enum class Accumulate : uint8_t { kFloat, kDouble };

// Every op in the written order (docs/numerics.md). The float path runs the kernels of `isa`, all
// of which give the same bits; the double path is plain loops. `pool` is borrowed for the life of
// the object.
std::unique_ptr<Ops> make_cpu_ops(Accumulate accumulate, ThreadPool& pool, const OpsLimits& limits,
                                  Isa isa = best_isa());

// Bytes of workspace make_cpu_ops allocates.
int64_t cpu_ops_bytes(const OpsLimits& limits, int num_threads);

namespace cpu {

inline constexpr int kCopiesMax = 16;

// Buffers of one thread, each large enough for the op that needs most.
template <typename Acc>
struct ScratchOf {
  std::vector<float> row;         // one natural row
  AlignedBuffer<float> expanded;  // LinearTile's workspace
  AlignedBuffer<float> segments;
  AlignedBuffer<Acc> sums_of_tile;  // two of [kRowBlock][kOutputTile]
  std::vector<KeyRow> key_rows;
  AlignedBuffer<float> attention;  // workspace of the kernel
  std::vector<float> keys;         // attention: decoded keys in lane order
  std::vector<float> query;
  std::vector<double> sums;      // attention: block sum and running sum
  std::vector<float> scores;     // index scores of one row
  std::vector<float> block_max;  // candidate blocks
  std::vector<int32_t> order;    // selection
  std::vector<int8_t> query_codes;
  std::vector<float> query_scales;  // then the heads' weights
};

template <typename Acc>
class CpuOps final : public Ops {
 public:
  CpuOps(ThreadPool& pool, const OpsLimits& limits, const Kernels& kernels);

  const char* numerics_id() const override;
  void embed(const EmbedArgs& args) override;
  void mixes(const MixesArgs& args) override;
  void collapse(const CollapseArgs& args) override;
  void expand(const ExpandArgs& args) override;
  void rms_norm(const RmsNormArgs& args) override;
  void linear(const LinearArgs& args) override;
  void rope_table(const RopeTableArgs& args) override;
  void rope(const RopeArgs& args) override;
  void stage_window(const StageWindowArgs& args) override;
  void compress_pairs(const CompressPairsArgs& args) override;
  void store_compressed(const StoreCompressedArgs& args) override;
  void index_select(const IndexSelectArgs& args) override;
  void attention(const AttentionArgs& args) override;
  void route(const RouteArgs& args) override;
  void expert(const ExpertArgs& args) override;
  void combine(const CombineArgs& args) override;
  void engram_decode(const EngramDecodeArgs& args) override;
  void engram_inject(const EngramInjectArgs& args) override;

 private:
  using Scratch = ScratchOf<Acc>;

  // Runs body(task, scratch) over the pool, or on the caller alone when the job is too small to
  // share.
  template <typename Body>
  void for_each(int64_t num_tasks, int64_t operations_per_task, const Body& body) {
    if (num_tasks * operations_per_task < kSharedJobMin) {
      for (int64_t task = 0; task < num_tasks; ++task) body(task, scratch_[0]);
      return;
    }
    pool_.run(num_tasks,
              [&](int64_t task, int thread) { body(task, scratch_[static_cast<size_t>(thread)]); });
  }
  // Runs body(first output, scratch) for every tile of `outputs`, a run of tiles a task, so that a
  // thread reads a long stretch of weights.
  template <typename Body>
  void for_tiles(int64_t outputs, int64_t operations_per_output, const Body& body) {
    const int64_t tiles = (outputs + kOutputTile - 1) / kOutputTile;
    const int64_t run = std::clamp<int64_t>(tiles / (8 * pool_.num_threads()), 1, 8);
    for_each((tiles + run - 1) / run, run * kOutputTile * operations_per_output,
             [&](int64_t task, Scratch& scratch) {
               const int64_t last = std::min((task + 1) * run, tiles);
               for (int64_t tile = task * run; tile < last; ++tile)
                 body(tile * kOutputTile, scratch);
             });
  }
  // x rows (by index when rows is not null) as operands of `weight`, in operands_ and plain_.
  void load_operands(const Weight& weight, ActivationRule rule, const Bf16* x, int64_t stride,
                     const int32_t* rows, int64_t num_rows);
  // Sums of outputs first .. first + kOutputTile - 1 for the loaded rows, y [rows][kOutputTile].
  void sum_outputs(const Weight& weight, int64_t first, int64_t num_rows, Scratch& scratch, Acc* y);
  void finish_mixes(const MixesArgs& args, int64_t row, const Acc* sums);
  void gate_up(const Acc* gate, const Acc* up, int64_t n, float limit, const float* weight,
               uint16_t* out);
  void score_part(const IndexSelectArgs& args, int64_t i, const IndexQuery& query, int64_t task,
                  float* scores);
  void select_scored(const IndexSelectArgs& args, int64_t i, Scratch& scratch);
  int32_t fill_pool(const IndexSelectArgs& args, int64_t visible, Scratch& scratch, int32_t* pool);
  void attend_heads(const AttentionArgs& args, int64_t i, int32_t head_begin, int32_t head_end,
                    Scratch& scratch);
  void attend_by_the_book(const AttentionHeads& heads, Scratch& scratch);

  static constexpr int64_t kSharedJobMin = 1 << 16;  // multiply-adds worth waking a thread for

  ThreadPool& pool_;
  OpsLimits limits_;
  std::vector<Scratch> scratch_;
  const Kernels& kernels_;
  AlignedBuffer<uint16_t> operands_;     // BF16, [kRowBlock][operand_len of the inputs]
  AlignedBuffer<uint16_t> activations_;  // BF16, [kRowBlock][expert width]
  AlignedBuffer<float> gate_logits_;     // [kRowBlock][experts]
  std::vector<Acc> mix_sums_;            // [kRowBlock][2C + C*C + 1], the last a sum of squares
  std::vector<uint8_t> plain_;           // [kRowBlock]
};

}  // namespace cpu
}  // namespace yeoul
