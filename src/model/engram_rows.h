#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "io/anonymous_memory.h"
#include "io/range_reader.h"
#include "model/engram_row_cache.h"

namespace yeoul {

struct EngramRowsOptions {
  int32_t rows_max = 512;        // rows of a step
  int64_t num_cached = 0;        // table rows kept in memory
  bool scales_resident = false;  // all scales in memory, a row is one read instead of two
  ReadWay way = ReadWay::kBest;
  bool allow_direct = true;
};

// What the tables cost since creation.
struct EngramTraffic {
  int64_t rows_wanted = 0;  // distinct table rows of each step
  int64_t rows_kept = 0;    // of those, in memory
  int64_t reads = 0;
  double wait_s = 0;  // time in which a layer waited for its rows
};

// Rows of the Engram tables, which stay in their files: a step names the rows it wants as soon as
// its tokens are known; equal ones are read once, in the order of the file, many at a time, while
// the layers before are computed. Often used rows are kept. Thread-confined to the engine thread;
// nothing but create() allocates unless a read fails.
class EngramRows {
 public:
  static Result<std::unique_ptr<EngramRows>> create(std::shared_ptr<const Checkpoint> checkpoint,
                                                    const EngramRowsOptions& options);

  static int64_t bytes(const ModelConfig& config, const EngramRowsOptions& options);
  // Of one row that is kept, and of all scales.
  static int64_t bytes_per_row(const ModelConfig& config);
  static int64_t scale_bytes(const ModelConfig& config);

  // One column of one step row: where the row's bytes go.
  struct Lookup {
    int32_t table = 0;  // as in engram_layer_ids
    int32_t step_row = 0;
    int64_t row = 0;            // of the table
    uint8_t* codes = nullptr;   // [width] e4m3
    uint8_t* scales = nullptr;  // [width / 32] ue8m0
  };

  // A step: begin(), want() for every lookup, then start() once, and wait() for each table.
  void begin();
  void want(const Lookup& lookup);
  void start();
  // Takes what has come and asks for more; blocks nowhere.
  void poll();
  // Blocks until every row of the table has been copied to where it is wanted or has failed.
  void wait(int32_t table);

  // Lookups of the step whose rows could not be read, of the tables waited for; their bytes are 0.
  struct Failure {
    int32_t table = 0;
    int32_t step_row = 0;
    Error error;  // kUnavailable
  };
  std::span<const Failure> failures() const { return failures_; }

  const EngramTraffic& traffic() const { return traffic_; }

 private:
  // A row of the step that is not in memory: lookups_[first_lookup .. last_lookup) want it.
  struct Row {
    size_t first_lookup = 0;
    size_t last_lookup = 0;
    int32_t parts_left = 0;  // codes, scales
  };
  // A read of neighbouring rows, rows_[first_row .. last_row): their codes or their scales.
  struct Read {
    size_t first_row = 0;
    size_t last_row = 0;
    bool is_scales = false;
    AlignedRange range;
    int32_t buffer = -1;
  };
  struct Table {
    const TensorEntry* codes = nullptr;
    const TensorEntry* scales = nullptr;
    const uint8_t* resident_scales = nullptr;  // [rows, width / 32] or null
    int32_t rows_left = 0;                     // of the step, not settled
  };

  EngramRows(std::shared_ptr<const Checkpoint> checkpoint, const EngramRowsOptions& options);
  Result<void> open(const EngramRowsOptions& options);
  Result<void> load_scales();
  void add_row(size_t first_lookup, size_t last_lookup);
  void add_reads(size_t first_row, size_t last_row, bool is_scales);
  void start_reads();
  void settle(const RangeOutcome& outcome);
  void end_row(const Row& row);
  void fail_row(const Row& row, const std::string& cause);
  const TensorEntry& part(int32_t table, bool is_scales) const;
  AlignedRange range_of(const Row& row, bool is_scales) const;
  uint8_t* kept(int64_t place) const;

  std::shared_ptr<const Checkpoint> checkpoint_;
  size_t width_ = 0;  // bytes of a row's codes
  size_t scales_width_ = 0;
  std::vector<Table> tables_;
  AnonymousMemory scales_memory_;
  EngramRowCache cache_;
  AnonymousMemory kept_;                 // [places, width + scales_width]
  AnonymousMemory buffers_;              // reads arrive here
  std::unique_ptr<RangeReader> reader_;  // ends before the memory it reads into
  EngramTraffic traffic_;

  // The step at hand.
  std::vector<Lookup> lookups_;  // sorted by start()
  std::vector<Row> rows_;
  std::vector<Read> reads_;
  size_t next_read_ = 0;
  std::vector<int32_t> free_buffers_;
  std::vector<Failure> failures_;
};

}  // namespace yeoul
