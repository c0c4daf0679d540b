#include "io/range_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <system_error>

#include "base/check.h"
#include "base/fault.h"

namespace yeoul {
namespace {

// A descriptor of its own for the file, past the page cache if that is allowed and possible.
struct Opened {
  int descriptor = -1;
  bool is_direct = false;
};

Result<Opened> open_again(const File& file, bool allow_direct) {
  Opened opened;
  if (allow_direct) {
    opened.descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    opened.is_direct = opened.descriptor >= 0;
  }
  if (opened.descriptor < 0) opened.descriptor = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  if (opened.descriptor < 0) {
    return fail(ErrorCode::kUnavailable, fmt::format("{}: cannot open: {}", file.path(),
                                                     std::generic_category().message(errno)));
  }
  struct stat status = {};
  if (::fstat(opened.descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(opened.descriptor);
    return fail(ErrorCode::kUnavailable, fmt::format("{}: is no file any more", file.path()));
  }
  // Reads are scattered: what lies behind them is not wanted.
  if (!opened.is_direct) ::posix_fadvise(opened.descriptor, 0, 0, POSIX_FADV_RANDOM);
  return opened;
}

}  // namespace

Result<std::unique_ptr<RangeReader>> RangeReader::open(std::span<const File> files,
                                                       const RangeReaderOptions& options) {
  CHECK(options.ranges_max > 0 && options.depth > 0 && options.piece_bytes > 0 &&
        options.piece_bytes % kReadAlignment == 0);
  auto reader = std::unique_ptr<RangeReader>(new RangeReader());
  reader->files_ = files;
  reader->piece_bytes_ = options.piece_bytes;
  TRY(reader->open_files(files, options.allow_direct));
  TRY(reader->open_queue(options));
  const auto ranges = static_cast<size_t>(options.ranges_max);
  const auto depth = static_cast<size_t>(options.depth);
  reader->ranges_.resize(ranges);
  reader->free_ranges_.resize(ranges);
  std::iota(reader->free_ranges_.rbegin(), reader->free_ranges_.rend(), 0);
  reader->waiting_.resize(ranges);
  reader->ahead_.reserve(ranges);
  reader->depth_ahead_ = options.depth_ahead;
  reader->ended_.reserve(ranges);
  reader->pieces_.resize(depth);
  reader->free_pieces_.resize(depth);
  std::iota(reader->free_pieces_.rbegin(), reader->free_pieces_.rend(), 0);
  reader->prepared_.reserve(depth);
  reader->results_.resize(depth);
  return reader;
}

Result<void> RangeReader::open_files(std::span<const File> files, bool allow_direct) {
  for (const File& file : files) {
    TRY_ASSIGN(const Opened opened, open_again(file, allow_direct));
    descriptors_.push_back(opened.descriptor);
    is_direct_.push_back(opened.is_direct ? 1 : 0);
  }
  return {};
}

Result<void> RangeReader::open_queue(const RangeReaderOptions& options) {
  const ReadQueueSetup setup{
      .descriptors = descriptors_, .depth = options.depth, .memory = options.memory};
  if (options.way != ReadWay::kThreads) {
    Result<std::unique_ptr<ReadQueue>> uring = make_uring_queue(setup);
    if (!uring && options.way == ReadWay::kUring) return tl::unexpected(std::move(uring.error()));
    if (uring) queue_ = std::move(*uring);
  }
  if (!queue_) queue_ = make_thread_queue(setup);
  return {};
}

RangeReader::~RangeReader() {
  // The kernel must not write into memory that may be gone.
  while (queue_ && next(true)) {
  }
  queue_.reset();
  for (const int descriptor : descriptors_) ::close(descriptor);
}

void RangeReader::start(const RangeRead& read) {
  DCHECK(read.offset % kReadAlignment == 0 && read.into.size() % kReadAlignment == 0 &&
         reinterpret_cast<uintptr_t>(read.into.data()) % kReadAlignment == 0);
  CHECK(!read.into.empty() && read.num_needed <= read.into.size());
  CHECK(!free_ranges_.empty(), "more than {} ranges at once", ranges_.size());
  const int32_t range = free_ranges_.back();
  free_ranges_.pop_back();
  ranges_[static_cast<size_t>(range)] = {
      .read = read, .is_waiting = true, .failed_at = read.into.size()};
  if (read.is_ahead) {
    ahead_.push_back(range);
  } else {
    wait_in_line(range);
  }
}

void RangeReader::wait_in_line(int32_t range) {
  waiting_[(first_waiting_ + num_waiting_++) % waiting_.size()] = range;
}

void RangeReader::raise(uint64_t tag) {
  std::erase_if(ahead_, [&](int32_t index) {
    if (ranges_[static_cast<size_t>(index)].read.tag != tag) return false;
    wait_in_line(index);
    return true;
  });
}

void RangeReader::give_up(uint64_t tag) {
  std::erase_if(ahead_, [&](int32_t index) {
    Range& range = ranges_[static_cast<size_t>(index)];
    if (range.read.tag != tag) return false;
    if (range.num_cut < range.failed_at) {
      range.failed_at = range.num_cut;
      range.error = ECANCELED;
    }
    end_waiting(index);
    return true;
  });
}

// A range that has failed gets no further pieces.
bool RangeReader::is_cut(const Range& range) const {
  return range.num_cut == range.read.into.size() || range.failed_at < range.read.into.size();
}

void RangeReader::pump() {
  prepared_.clear();
  while (num_waiting_ > 0 && !free_pieces_.empty()) {
    const int32_t index = waiting_[first_waiting_];
    cut_piece(index, false);
    if (!is_cut(ranges_[static_cast<size_t>(index)])) continue;
    first_waiting_ = (first_waiting_ + 1) % waiting_.size();
    --num_waiting_;
    end_waiting(index);
  }
  // Only while nothing that is waited for is under way: it would come later for it.
  const auto num_under_way = static_cast<int32_t>(pieces_.size() - free_pieces_.size());
  const bool is_idle = num_under_way == num_ahead_;
  while (is_idle && !ahead_.empty() && num_ahead_ < depth_ahead_ && !free_pieces_.empty()) {
    const int32_t index = ahead_.front();
    cut_piece(index, true);
    if (!is_cut(ranges_[static_cast<size_t>(index)])) continue;
    ahead_.erase(ahead_.begin());
    end_waiting(index);
  }
  if (!prepared_.empty()) queue_->submit(prepared_);
  prepared_.clear();
}

void RangeReader::cut_piece(int32_t index, bool is_ahead) {
  Range& range = ranges_[static_cast<size_t>(index)];
  if (is_cut(range)) return;
  const int32_t piece = free_pieces_.back();
  free_pieces_.pop_back();
  const uint64_t left = range.read.into.size() - range.num_cut;
  const auto num_bytes = static_cast<uint32_t>(std::min<uint64_t>(piece_bytes_, left));
  pieces_[static_cast<size_t>(piece)] = {index, range.num_cut, num_bytes, is_ahead};
  range.num_cut += num_bytes;
  ++range.num_pieces;
  num_ahead_ += is_ahead ? 1 : 0;
  submit_piece(piece);
}

// The range is in no line any more; it has ended if nothing of it is under way.
void RangeReader::end_waiting(int32_t index) {
  Range& range = ranges_[static_cast<size_t>(index)];
  range.is_waiting = false;
  if (range.num_pieces == 0) ended_.push_back(index);
}

void RangeReader::submit_piece(int32_t piece) {
  const Piece& p = pieces_[static_cast<size_t>(piece)];
  const RangeRead& read = ranges_[static_cast<size_t>(p.range)].read;
  prepared_.push_back({read.file, read.offset + p.begin, read.into.data() + p.begin, p.num_bytes,
                       static_cast<uint32_t>(piece)});
  ++num_reads_;
}

// A piece that came only in part is continued behind what came, at a place that may be read.
void RangeReader::settle(const QueuedResult& result) {
  const auto index = static_cast<int32_t>(result.id);
  Piece& piece = pieces_[result.id];
  Range& range = ranges_[static_cast<size_t>(piece.range)];
  const uint64_t at = range.read.offset + piece.begin;
  int64_t found = result.result;
  if (fault_fires(FaultPoint::kReadError, at)) found = -EIO;
  if (found > int64_t{kReadAlignment} && fault_fires(FaultPoint::kReadShort, at)) {
    found = std::max(found / 2, int64_t{kReadAlignment});
  }
  const uint64_t num_found = found > 0 ? static_cast<uint64_t>(found) : 0;
  num_bytes_ += static_cast<int64_t>(num_found);
  if (!is_direct(range.read.file) && num_found > 0) {
    ::posix_fadvise(descriptors_[static_cast<size_t>(range.read.file)], static_cast<off_t>(at),
                    static_cast<off_t>(num_found), POSIX_FADV_DONTNEED);
  }
  const bool is_enough =
      num_found == piece.num_bytes || piece.begin + num_found >= range.read.num_needed;
  if (found >= 0 && is_enough) return end_piece(index);
  const uint64_t step = num_found / kReadAlignment * kReadAlignment;
  if (found > 0 && step > 0) {
    piece.begin += step;
    piece.num_bytes -= static_cast<uint32_t>(step);
    submit_piece(index);
    return;
  }
  if (piece.begin + num_found < range.failed_at) {
    range.failed_at = piece.begin + num_found;
    range.error = found < 0 ? static_cast<int>(-found) : 0;
  }
  end_piece(index);
}

void RangeReader::end_piece(int32_t piece) {
  const int32_t index = pieces_[static_cast<size_t>(piece)].range;
  num_ahead_ -= pieces_[static_cast<size_t>(piece)].is_ahead ? 1 : 0;
  free_pieces_.push_back(piece);
  Range& range = ranges_[static_cast<size_t>(index)];
  // A failed range that still waits for pieces is ended by pump().
  if (--range.num_pieces == 0 && !range.is_waiting) ended_.push_back(index);
}

std::optional<RangeOutcome> RangeReader::next(bool wait) {
  while (true) {
    pump();
    if (free_pieces_.size() < pieces_.size()) {
      const size_t count = queue_->reap(results_, wait && ended_.empty());
      for (size_t i = 0; i < count; ++i) settle(results_[i]);
      if (!prepared_.empty()) queue_->submit(prepared_);
      prepared_.clear();
      pump();
    }
    if (!ended_.empty()) break;
    if (!wait || free_pieces_.size() == pieces_.size()) return std::nullopt;
  }
  const int32_t index = ended_.back();
  ended_.pop_back();
  free_ranges_.push_back(index);
  const Range& range = ranges_[static_cast<size_t>(index)];
  const bool is_whole = range.failed_at == range.read.into.size();
  return RangeOutcome{range.read, is_whole, range.failed_at, range.error};
}

std::string RangeReader::explain(const RangeOutcome& outcome) const {
  return fmt::format("{}: read at offset {}: {} bytes expected, {} found ({})",
                     files_[static_cast<size_t>(outcome.read.file)].path(), outcome.read.offset,
                     outcome.read.num_needed, outcome.num_found,
                     outcome.error != 0 ? std::generic_category().message(outcome.error)
                                        : "the file was shortened");
}

}  // namespace yeoul
