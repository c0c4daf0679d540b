#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/ops.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/anonymous_memory.h"
#include "io/range_reader.h"
#include "model/expert_cache.h"
#include "model/expert_layout.h"

namespace yeoul {

struct ExpertStoreOptions {
  int32_t num_slots = 0;  // experts in memory at once; 0: all of them
  ReadWay way = ReadWay::kBest;
  bool allow_direct = true;
  bool read_ahead = true;  // what foresee() names
};

// What the store did since it was created.
struct ExpertTraffic {
  int64_t hits = 0;      // experts that a layer step wanted and that were there
  int64_t misses = 0;    // that were not, or only because they were read ahead
  int64_t foreseen = 0;  // of the misses, those whose reads had begun before they were wanted
  int64_t mistaken = 0;  // experts whose reads had begun and that were not wanted then
  int64_t bytes_read = 0;
  double read_s = 0;  // time in which reads were under way
  double wait_s = 0;  // of it, time in which nothing could be computed

  friend ExpertTraffic operator+(const ExpertTraffic& a, const ExpertTraffic& b);
  friend ExpertTraffic operator-(const ExpertTraffic& a, const ExpertTraffic& b);
};

// Routed experts of all layers (DSpark stage s counts as layer num_hidden_layers + s), in memory as
// far as there are slots. A layer step names the experts it wants; those that are missing are read
// all at once, many reads deep, while those that are there are computed. With fewer slots than the
// step has experts it goes in waves. Which experts stay is ExpertCache's choice and changes no bit;
// neither does what is read ahead.
// Thread-confined to the engine thread; begin() and next() do not allocate unless a read fails.
class ExpertStore {
 public:
  static Result<std::unique_ptr<ExpertStore>> create(std::shared_ptr<const Checkpoint> checkpoint,
                                                     const ExpertStoreOptions& options = {});

  struct Ready {
    size_t place = 0;               // in the list given to begin()
    Result<ExpertWeights> weights;  // kUnavailable with layer, expert and the cause
  };
  // A layer step wants these experts (distinct). The step before was asked for to its end.
  void begin(int32_t layer, std::span<const int32_t> experts);
  // The next one to compute, in whatever order they come; none when all were given. What was given
  // before is valid until this call.
  std::optional<Ready> next();

  // Between begin() and the last next(): the step after this one, at `layer`, will probably want
  // these (distinct; ignored where the slots would not hold as many of every layer). Missing ones
  // are read while no read is waited for; begin() gives up those that
  // the guess was wrong about. A read ahead that fails is made again when the expert is wanted.
  void foresee(int32_t layer, std::span<const int32_t> experts);
  // Whether foresee() would take a guess of so many experts.
  bool takes_guess_of(size_t num_experts) const;

  // One expert alone; valid until the next call of fetch() or begin().
  Result<ExpertWeights> fetch(int32_t layer, int32_t expert);

  bool holds_all() const { return cache_.num_slots() == cache_.num_experts(); }
  uint64_t expert_bytes() const { return layout_.expert_bytes(); }
  const RangeReader& reader() const { return *reader_; }
  const ExpertTraffic& traffic() const { return traffic_; }

 private:
  struct Wanted {
    int32_t expert = 0;  // numbered through all layers
    Result<void> status;
  };
  // An expert on its way into its slot.
  struct Arrival {
    int32_t expert = -1;
    int32_t ranges_left = 0;  // 0: nothing is on its way here
    Result<void> status;
    std::optional<size_t> place;  // of the step at hand; none: read ahead
    bool is_foreseen = false;
    bool is_given_up = false;
  };
  ExpertStore(std::shared_ptr<const Checkpoint> checkpoint, ExpertLayout layout, int32_t num_slots);
  std::byte* slot(int32_t index) const;
  void want(int32_t layer, int32_t expert);
  void give_up_guesses();
  void start_reads();
  void start_read(int32_t expert, int32_t slot, std::optional<size_t> place);
  void settle(const RangeOutcome& outcome);
  void end_arrival(Arrival& arrival);
  void release_given();
  Error failure(int32_t expert, const std::string& cause) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  ExpertLayout layout_;
  ExpertCache cache_;
  AnonymousMemory memory_;
  std::unique_ptr<RangeReader> reader_;  // ends before the memory it reads into
  ExpertTraffic traffic_;
  bool read_ahead_ = true;
  std::vector<Arrival> arrivals_;
  std::vector<int32_t> free_arrivals_;
  std::vector<int32_t> arrival_of_;  // [experts], or -1
  std::vector<int32_t> guesses_;     // experts that came ahead since the last begin()
  std::vector<uint8_t> is_guess_;    // [experts]

  // The step at hand.
  int32_t layer_ = 0;
  std::vector<Wanted> wanted_;   // by place
  std::vector<size_t> missing_;  // places whose reads are to be started, from next_missing_ on
  size_t next_missing_ = 0;
  std::vector<size_t> ready_;  // places that can be given, from next_ready_ on
  size_t next_ready_ = 0;
  std::optional<size_t> given_;
  int32_t num_reading_ = 0;  // experts on their way
  std::chrono::steady_clock::time_point reading_since_;
};

}  // namespace yeoul
