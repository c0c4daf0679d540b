#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/file.h"
#include "io/read_queue.h"

namespace yeoul {

// What reads past the page cache begin and end at, in the file and in memory. Every file system and
// device takes it; some would take less.
inline constexpr uint64_t kReadAlignment = 4096;

// The aligned bytes that cover a part of a file.
struct AlignedRange {
  uint64_t offset = 0;
  uint64_t num_bytes = 0;
  uint64_t inner = 0;  // of the part's first byte
};
constexpr AlignedRange covering(uint64_t offset, uint64_t num_bytes) {
  const uint64_t begin = offset / kReadAlignment * kReadAlignment;
  const uint64_t end = (offset + num_bytes + kReadAlignment - 1) / kReadAlignment * kReadAlignment;
  return {begin, end - begin, offset - begin};
}

// One range of a file on its way into memory.
struct RangeRead {
  int32_t file = 0;           // index into the files given at creation
  uint64_t offset = 0;        // a multiple of kReadAlignment
  std::span<std::byte> into;  // begins and ends at multiples of it
  uint64_t num_needed = 0;    // bytes from `offset` that must arrive; the file may end after them
  uint64_t tag = 0;           // given back with the outcome
  bool is_ahead = false;      // nobody waits for it yet: goes while no other is under way
};

struct RangeOutcome {
  RangeRead read;
  bool ok = false;
  uint64_t num_found = 0;  // bytes before the first that did not come
  int error = 0;           // errno; 0 when the file ended; ECANCELED after give_up()
};

enum class ReadWay : uint8_t { kBest, kUring, kThreads };

struct RangeReaderOptions {
  ReadWay way = ReadWay::kBest;
  bool allow_direct = true;          // past the page cache, where the file system can
  int32_t ranges_max = 64;           // between start() and their outcome
  int32_t depth = 64;                // reads the kernel has at a time
  int32_t depth_ahead = 16;          // of them, reads of ranges that nobody waits for yet
  uint32_t piece_bytes = 512 << 10;  // a range goes to the kernel in pieces of this size
  std::span<std::byte> memory = {};  // where ranges will go, registered if the kernel allows
};

// Reads ranges of files, many at a time and in any order, each with its own outcome: io_uring where
// it is allowed, else threads; O_DIRECT where the file system has it, else through the page cache,
// which is told to forget the pages. Thread-confined. start() and next() do not allocate.
class RangeReader {
 public:
  // The files are borrowed. kUnsupported when options.way cannot be had, kUnavailable when a file
  // cannot be opened again.
  static Result<std::unique_ptr<RangeReader>> open(std::span<const File> files,
                                                   const RangeReaderOptions& options);
  ~RangeReader();
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;

  // At most ranges_max between start() and next().
  void start(const RangeRead& read);
  // Hands ranges that wait to the kernel as far as it has room; next() does so too.
  void pump();
  // Ranges with this tag that were started ahead are waited for now.
  void raise(uint64_t tag);
  // Ranges with this tag that were started ahead are not wanted any more: what the kernel has not
  // got of them is not read. Each still has its outcome.
  void give_up(uint64_t tag);
  // The outcome of a range that has ended. With `wait` only none when nothing is under way.
  std::optional<RangeOutcome> next(bool wait);

  // Path, place, bytes expected and found, reason.
  std::string explain(const RangeOutcome& outcome) const;

  const char* way() const { return queue_->name(); }
  bool is_direct(int32_t file) const { return is_direct_[static_cast<size_t>(file)] != 0; }
  // Reads given to the kernel and bytes they brought, since creation.
  int64_t num_reads() const { return num_reads_; }
  int64_t num_bytes() const { return num_bytes_; }

 private:
  struct Range {
    RangeRead read;
    bool is_waiting = false;  // in waiting_ or ahead_
    uint64_t num_cut = 0;     // bytes that went into pieces
    int32_t num_pieces = 0;   // under way
    uint64_t failed_at = 0;   // lowest byte that did not come; read.into.size(): none
    int error = 0;
  };
  struct Piece {
    int32_t range = 0;
    uint64_t begin = 0;  // in the range
    uint32_t num_bytes = 0;
    bool is_ahead = false;
  };
  RangeReader() = default;
  Result<void> open_files(std::span<const File> files, bool allow_direct);
  Result<void> open_queue(const RangeReaderOptions& options);
  bool is_cut(const Range& range) const;
  void wait_in_line(int32_t range);
  void cut_piece(int32_t range, bool is_ahead);
  void end_waiting(int32_t range);
  void settle(const QueuedResult& result);
  void submit_piece(int32_t piece);
  void end_piece(int32_t piece);

  std::span<const File> files_;
  std::vector<int> descriptors_;
  std::vector<uint8_t> is_direct_;
  uint32_t piece_bytes_ = 0;
  std::vector<Range> ranges_;
  std::vector<int32_t> free_ranges_;
  std::vector<int32_t> waiting_;  // ranges not wholly cut, a ring of ranges_max
  size_t first_waiting_ = 0;
  size_t num_waiting_ = 0;
  std::vector<int32_t> ahead_;  // ranges started ahead and not wholly cut, the oldest first
  int32_t depth_ahead_ = 0;
  int32_t num_ahead_ = 0;       // pieces under way that were cut while nobody waited for them
  std::vector<int32_t> ended_;  // ranges whose outcome was not given yet
  std::vector<Piece> pieces_;
  std::vector<int32_t> free_pieces_;
  std::vector<QueuedRead> prepared_;
  std::vector<QueuedResult> results_;
  int64_t num_reads_ = 0;
  int64_t num_bytes_ = 0;
  std::unique_ptr<ReadQueue> queue_;  // last: ends before what it reads with
};

}  // namespace yeoul
