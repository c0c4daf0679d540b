#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/types.h>

namespace yeoul {

// What came of filling a buffer: `num_bytes` arrived, and `error` is the errno of the call that
// failed, or 0 (then fewer bytes than wanted mean the file ended).
struct ReadOutcome {
  size_t num_bytes = 0;
  int error = 0;
};

// Fills `into` from byte `offset` by calling `pread_once(buffer, count, offset)`, which behaves
// like pread(2): it may deliver less than asked (the kernel stops at 2 GiB - 4 KiB a call), be
// interrupted by a signal, or return 0 at the end of the file.
template <typename PreadOnce>
ReadOutcome read_fully(PreadOnce&& pread_once, uint64_t offset, std::span<std::byte> into) {
  ReadOutcome outcome;
  while (outcome.num_bytes < into.size()) {
    const std::span<std::byte> rest = into.subspan(outcome.num_bytes);
    const ssize_t num_read =
        pread_once(rest.data(), rest.size(), static_cast<off_t>(offset + outcome.num_bytes));
    if (num_read < 0) {
      if (errno == EINTR) continue;
      outcome.error = errno;
      return outcome;
    }
    if (num_read == 0) return outcome;
    outcome.num_bytes += static_cast<size_t>(num_read);
  }
  return outcome;
}

}  // namespace yeoul
