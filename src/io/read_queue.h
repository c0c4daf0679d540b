#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace yeoul {

// One call of pread(2), to be made sooner or later.
struct QueuedRead {
  int32_t file = 0;  // index into ReadQueueSetup::descriptors
  uint64_t offset = 0;
  std::byte* into = nullptr;
  uint32_t num_bytes = 0;
  uint32_t id = 0;  // given back with the result
};

struct QueuedResult {
  uint32_t id = 0;
  int32_t result = 0;  // as pread's: bytes that arrived, 0 at the end of the file; or -errno
};

struct ReadQueueSetup {
  std::span<const int> descriptors;  // stay open as long as the queue
  int32_t depth = 64;                // reads between submit() and reap()
  int32_t num_threads = 8;           // of a thread queue
  std::span<std::byte> memory = {};  // where reads will go, for a kernel that can prepare for it
};

// Many reads under way at once. Two implementations: io_uring, and threads that call pread.
// Thread-confined; submit() and reap() do not allocate.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;
  virtual const char* name() const = 0;  // "io_uring" or "threads"

  // Never more than `depth` reads between submit() and reap().
  virtual void submit(std::span<const QueuedRead> reads) = 0;
  // Results that are there, at most into.size(). With `wait` at least one: a read must be under
  // way.
  virtual size_t reap(std::span<QueuedResult> into, bool wait) = 0;
};

// kUnsupported with the reason where the kernel or the sandbox forbids io_uring.
Result<std::unique_ptr<ReadQueue>> make_uring_queue(const ReadQueueSetup& setup);
std::unique_ptr<ReadQueue> make_thread_queue(const ReadQueueSetup& setup);

}  // namespace yeoul
