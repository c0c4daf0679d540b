#include "scheduler/sequence.h"

#include <fmt/format.h>

#include <algorithm>
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
  prefill_len_ = known_len();
  passed_tokens_ = 0;
}

void Sequence::preempt() noexcept {
  CHECK(phase_ == Phase::kRunning, "slot {}", slot_);
  phase_ = Phase::kWaiting;
  slot_ = -1;
  is_paused_ = false;
  pages_.clear();
  computed_before_ = std::max(computed_before_, committed_len_);
  committed_len_ = kept_len_ = 0;
  cached_len_ = 0;
  num_anchors_ = 0;
}

void Sequence::resume(int64_t length, const PageTable& from, int64_t tokens_per_page,
                      std::optional<int32_t> copied) {
  CHECK(committed_len_ == 0 && length > 0 && length < known_len(), "resumes at {} of {}", length,
        known_len());
  CHECK(copied.has_value() == (length % tokens_per_page != 0));
  pages_.share_prefix(from, static_cast<size_t>(length / tokens_per_page));
  if (copied) pages_.append(*copied);
  committed_len_ = kept_len_ = length;
}

bool Sequence::add_anchor(const Anchor& anchor) {
  if (anchor.position <= committed_len_ || anchor.position >= prompt_len()) return false;
  Anchor* const end = anchors_.data() + num_anchors_;
  Anchor* const at = std::find_if(
      anchors_.data(), end, [&](const Anchor& other) { return other.position >= anchor.position; });
  if (at != end && at->position == anchor.position) {
    at->own_cone = at->own_cone || anchor.own_cone;
    return true;
  }
  if (num_anchors_ == kAnchorsMax) return false;
  std::move_backward(at, end, end + 1);
  *at = anchor;
  ++num_anchors_;
  return true;
}

int64_t Sequence::cone_end() const {
  for (const Anchor& anchor : anchors())
    if (anchor.own_cone && anchor.position > committed_len_) return anchor.position;
  return prefill_len_;
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
