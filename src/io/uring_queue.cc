#include <fmt/format.h>
#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "io/read_queue.h"

namespace yeoul {
namespace {

// The kernel takes at most 1 GiB as one registered buffer.
constexpr size_t kBufferBytesMax = size_t{1} << 30;

class UringQueue final : public ReadQueue {
 public:
  explicit UringQueue(const ReadQueueSetup& setup) : descriptors_(setup.descriptors) {}
  ~UringQueue() override {
    if (is_open_) io_uring_queue_exit(&ring_);
  }

  // 0 or an errno.
  int open(const ReadQueueSetup& setup) {
    const int opened = io_uring_queue_init(static_cast<unsigned>(setup.depth), &ring_, 0);
    if (opened < 0) return -opened;
    is_open_ = true;
    has_files_ = io_uring_register_files(&ring_, descriptors_.data(),
                                         static_cast<unsigned>(descriptors_.size())) == 0;
    register_memory(setup.memory);
    return 0;
  }

  const char* name() const override { return "io_uring"; }

  void submit(std::span<const QueuedRead> reads) override {
    for (const QueuedRead& read : reads) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      CHECK(entry != nullptr, "more reads than the queue is deep");
      const int file = has_files_ ? read.file : descriptors_[static_cast<size_t>(read.file)];
      if (const int buffer = buffer_of(read); buffer >= 0) {
        io_uring_prep_read_fixed(entry, file, read.into, read.num_bytes, read.offset, buffer);
      } else {
        io_uring_prep_read(entry, file, read.into, read.num_bytes, read.offset);
      }
      if (has_files_) io_uring_sqe_set_flags(entry, IOSQE_FIXED_FILE);
      io_uring_sqe_set_data64(entry, read.id);
    }
    enter(0);
  }

  size_t reap(std::span<QueuedResult> into, bool wait) override {
    size_t count = take(into);
    while (count == 0 && wait) {
      enter(1);
      count = take(into);
    }
    return count;
  }

 private:
  // Hands over what was prepared and waits for `results`. A kernel that is short of memory for the
  // moment, or a signal, leaves entries prepared; the next call hands them over.
  void enter(unsigned results) {
    const int entered = io_uring_submit_and_wait(&ring_, results);
    CHECK(entered >= 0 || entered == -EINTR || entered == -EAGAIN || entered == -EBUSY,
          "io_uring_enter: {}", std::generic_category().message(-entered));
  }

  size_t take(std::span<QueuedResult> into) {
    size_t count = 0;
    io_uring_cqe* result = nullptr;
    while (count < into.size() && io_uring_peek_cqe(&ring_, &result) == 0) {
      into[count++] = {static_cast<uint32_t>(io_uring_cqe_get_data64(result)), result->res};
      io_uring_cqe_seen(&ring_, result);
    }
    return count;
  }

  // Spares the kernel looking up the pages of every read. Where it may not pin that much memory
  // (RLIMIT_MEMLOCK), reads go without.
  void register_memory(std::span<std::byte> memory) {
    std::vector<iovec> buffers;
    for (size_t at = 0; at < memory.size(); at += kBufferBytesMax) {
      buffers.push_back({memory.data() + at, std::min(kBufferBytesMax, memory.size() - at)});
    }
    if (buffers.empty()) return;
    if (io_uring_register_buffers(&ring_, buffers.data(), static_cast<unsigned>(buffers.size())) ==
        0) {
      memory_ = memory;
    }
  }

  // The registered buffer that holds all of the read's destination, or -1.
  int buffer_of(const QueuedRead& read) const {
    if (memory_.empty() || read.into < memory_.data() ||
        read.into + read.num_bytes > memory_.data() + memory_.size()) {
      return -1;
    }
    const auto begin = static_cast<size_t>(read.into - memory_.data());
    const size_t first = begin / kBufferBytesMax;
    const size_t last = (begin + read.num_bytes - 1) / kBufferBytesMax;
    return first == last ? static_cast<int>(first) : -1;
  }

  io_uring ring_{};
  bool is_open_ = false;
  bool has_files_ = false;
  std::span<const int> descriptors_;
  std::span<std::byte> memory_;  // registered
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> make_uring_queue(const ReadQueueSetup& setup) {
  auto queue = std::make_unique<UringQueue>(setup);
  if (const int error = queue->open(setup); error != 0) {
    return fail(ErrorCode::kUnsupported,
                fmt::format("io_uring: {}", std::generic_category().message(error)));
  }
  return queue;
}

}  // namespace yeoul
