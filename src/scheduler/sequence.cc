#include "scheduler/sequence.h"

#include <fmt/format.h>

#include <new>

#include "base/check.h"

namespace yeoul {

TokenId Sequence::token_at(int64_t position) const {
  CHECK(position >= 0 && position < known_len(), "position {} of {}", position, known_len());
  if (position < prompt_len()) return spec_.prompt[static_cast<size_t>(position)];
  return output_[static_cast<size_t>(position - prompt_len())];
}

Result<void> Sequence::reserve_memory(int64_t tokens_per_page) {
  const int64_t num_pages = pages_max(tokens_per_page);
  // The wrapper of the standard library's allocation, one of the places where we catch.
  try {
    output_.reserve(static_cast<size_t>(spec_.output_max));
    pages_.reserve(static_cast<size_t>(num_pages));
  } catch (const std::bad_alloc&) {
    return fail(
        ErrorCode::kResourceExhausted,
        fmt::format("no memory for the state of a sequence of {} output tokens", spec_.output_max));
  }
  return {};
}

void Sequence::start(int32_t slot) {
  CHECK(phase_ == Phase::kWaiting, "slot {}", slot);
  phase_ = Phase::kRunning;
  slot_ = slot;
}

void Sequence::commit(int64_t num_tokens, int32_t num_new_pages,
                      PageReservation& reserved) noexcept {
  CHECK(committed_len_ + num_tokens <= known_len(), "{} + {} tokens of {}", committed_len_,
        num_tokens, known_len());
  for (int32_t i = 0; i < num_new_pages; ++i) pages_.append(reserved.take());
  committed_len_ += num_tokens;
}

void Sequence::append_output(TokenId token) noexcept {
  CHECK(static_cast<int64_t>(output_.size()) < spec_.output_max, "output_max {}", spec_.output_max);
  output_.push_back(token);
}

void Sequence::end() noexcept {
  phase_ = Phase::kEnded;
  slot_ = -1;
  is_paused_ = false;
  pages_.clear();
}

}  // namespace yeoul
