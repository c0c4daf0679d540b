#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace yeoul {

// What a step computes, as far as its duration depends on it.
struct StepLoad {
  int32_t decode_rows = 0;
  int32_t prefill_tokens = 0;
};

// How long a step takes: a fixed part, one for each decode row, one for each token of prompts.
// Learned from the last kWindow measured steps of each kind (without and with prompts): slope and
// intercept of the decode rows by Theil and Sen, what a token adds to that by the median weighted
// with tokens, so that single steps that took long for other reasons count for nothing, and steps
// of few tokens for little. A function of what was observed, in order. Does not allocate.
// Thread-confined to the engine thread.
class StepCost {
 public:
  static constexpr size_t kWindow = 32;
  // A prompt whose turn it is computes at least so many tokens in a step.
  static constexpr int32_t kChunkMin = 16;
  // Before a step with prompts was measured. From then on a chunk is at most twice as large as the
  // largest that was: what a few tokens take says little about many.
  static constexpr int32_t kFirstChunk = 32;
  // Of the target, so that ordinary variation stays below it.
  static constexpr double kTargetShare = 0.9;

  void observe(const StepLoad& load, double seconds);

  // Seconds of a step of these rows alone; 0 before one was measured.
  double decode_seconds(int32_t rows) const;
  // Seconds that a token of a prompt adds; 0 before one was measured.
  double token_seconds() const;

  // Most tokens of prompts beside `decode_rows` running streams, so that the step stays under the
  // target; at least kChunkMin. Where not even those fit, prompts get as much time as the decode
  // rows take.
  int32_t prefill_tokens_max(int32_t decode_rows, double target_s) const;

 private:
  struct Sample {
    StepLoad load;
    double seconds = 0;
  };
  struct Line {
    double fixed = 0;
    double each = 0;
  };
  // The last kWindow of them, the oldest overwritten first.
  class Samples {
   public:
    void add(const Sample& sample) { ring_[count_++ % kWindow] = sample; }
    size_t size() const { return count_ < kWindow ? count_ : kWindow; }
    const Sample& operator[](size_t i) const { return ring_[i]; }

   private:
    std::array<Sample, kWindow> ring_;
    size_t count_ = 0;
  };

  Line decode_line() const;

  Samples decode_only_;
  Samples with_prompts_;
};

}  // namespace yeoul
