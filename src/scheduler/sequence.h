#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "cache/page_pool.h"
#include "cache/page_reservation.h"
#include "cache/page_table.h"

namespace yeoul {

// What is known of a sequence when it is submitted; never changes.
struct SequenceSpec {
  uint64_t request_id = 0;
  int32_t choice = 0;
  uint64_t arrival = 0;             // order of submission over all sequences, unique
  int32_t priority = 0;             // higher runs first
  std::span<const TokenId> prompt;  // borrowed for the life of the sequence
  int64_t output_max = 0;           // output tokens it may generate
};

// A position of a prompt after which its state is kept. With a cone of its own, the tokens before
// it are computed as if the prompt ended there, so that any prompt may go on from it; without one,
// those may that are at least as long as this one, or long enough to leave the cone before it.
struct Anchor {
  int64_t position = 0;
  bool own_cone = false;
  friend bool operator==(const Anchor&, const Anchor&) = default;
};

// One token stream of a request and how far it is. Lengths are intervals of positions:
//   [0, committed_len)          KV is in the pages; can no longer change
//   [committed_len, known_len)  token ids known, not computed: the rest of the prompt, or the
//                               token sampled last
// Thread-confined to the engine thread once enqueued.
class Sequence {
 public:
  enum class Phase : uint8_t { kWaiting, kRunning, kEnded };
  static constexpr size_t kAnchorsMax = 8;

  Sequence(const SequenceSpec& spec, PagePool& pool)
      : spec_(spec), pages_(pool), prefill_len_(std::ssize(spec.prompt)) {}

  const SequenceSpec& spec() const { return spec_; }
  Phase phase() const { return phase_; }
  int32_t slot() const { return slot_; }
  int64_t prompt_len() const { return static_cast<int64_t>(spec_.prompt.size()); }
  int64_t known_len() const { return prompt_len() + static_cast<int64_t>(output_.size()); }
  int64_t committed_len() const { return committed_len_; }
  std::span<const TokenId> output() const { return output_; }
  const PageTable& page_table() const { return pages_; }
  TokenId token_at(int64_t position) const;

  // Where its prefill ends: the tokens it knew when it started to run. The prompt; after a
  // preemption also the output so far, which is computed again like a prompt.
  int64_t prefill_len() const { return prefill_len_; }

  // Pages it holds at most: the last output token is never computed, so its position needs none.
  int64_t pages_max(int64_t tokens_per_page) const {
    return pages_for(prompt_len() + spec_.output_max - 1, tokens_per_page);
  }

  // Pages for what it has to compute at once, and one to grow into.
  int64_t pages_wanted(int64_t tokens_per_page) const {
    return std::min(pages_max(tokens_per_page), pages_for(known_len(), tokens_per_page) + 1);
  }

  // Allocates what a running sequence needs to the end: kResourceExhausted when memory is short.
  Result<void> reserve_memory(int64_t tokens_per_page);

  // Waiting -> running.
  void start(int32_t slot);

  // Running -> waiting: gives the pages back, forgets what is computed, keeps what is known.
  // Forgets the anchors too: whether they can have their cones depends on where it starts.
  void preempt() noexcept;

  // Tokens that were computed before the last preemption: computing them again is no news.
  int64_t computed_before() const { return computed_before_; }

  // Starts behind the first `length` tokens, whose pages `from` holds: shares those that are full.
  // `copied` is a page of its own for the rest of them, unless `length` ends a page.
  void resume(int64_t length, const PageTable& from, int64_t tokens_per_page,
              std::optional<int32_t> copied);

  // Anchors of the prompt, ascending. add_anchor: false for one that is not inside the prompt and
  // ahead of what is committed, or too many.
  bool add_anchor(const Anchor& anchor);
  std::span<const Anchor> anchors() const { return std::span(anchors_).first(num_anchors_); }

  // Where the cone of the prompt token that is next ends: the next anchor with one of its own, else
  // the end of the prefill. An item does not go beyond it.
  int64_t cone_end() const;

  // The longest prefix whose state was kept, or that this sequence resumed from.
  int64_t kept_len() const { return kept_len_; }
  void note_kept(int64_t length) { kept_len_ = length; }

  // The step's first `num_tokens` tokens from committed_len() on are final. Takes over the pages
  // that were reserved for them.
  void commit(int64_t num_tokens, int32_t num_new_pages, PageReservation& reserved) noexcept;
  void append_output(TokenId token) noexcept;

  // -> ended: gives the pages back.
  void end() noexcept;

  // A waiting sequence that shares what `leader`, a running one, has yet to compute is held until
  // that has committed `position` tokens, or is gone. The scheduler lets go when it removes the
  // leader.
  void wait_for(const Sequence& leader, int64_t position) {
    leader_ = &leader;
    leader_position_ = position;
  }
  void stop_waiting() { leader_ = nullptr; }
  const Sequence* leader() const { return leader_; }
  // It is held too while its prefix is brought back from somewhere slow.
  void wait_for_fetch() { is_fetching_ = true; }
  void end_fetch() { is_fetching_ = false; }
  bool is_held() const { return is_fetching_ || is_behind_leader(); }
  bool is_behind_leader() const {
    return leader_ != nullptr && !leader_->is_paused_ && leader_->committed_len_ < leader_position_;
  }

  // Prompt tokens that were known when it was enqueued: an estimate of what it need not compute.
  void expect_cached(int64_t length) { cached_len_ = length; }
  int64_t expected_rest() const { return known_len() - cached_len_; }

  // The scheduler's count of computed prompt tokens when it was enqueued, or preempted.
  void note_enqueued(int64_t computed) { computed_at_enqueue_ = computed; }
  int64_t computed_at_enqueue() const { return computed_at_enqueue_; }

  // Prompt tokens computed for later arrivals in steps that left this one out since it started.
  int64_t passed_tokens() const { return passed_tokens_; }
  void note_passed_tokens(int64_t num_tokens) { passed_tokens_ += num_tokens; }

  // How many later arrivals were admitted before this one.
  int32_t passed_by() const { return passed_by_; }
  void note_passed() { ++passed_by_; }

  // A paused sequence keeps its slot and pages and gets no rows: its reader is behind.
  bool is_paused() const { return is_paused_; }
  void pause(bool paused) { is_paused_ = paused; }

 private:
  SequenceSpec spec_;
  PageTable pages_;
  std::vector<TokenId> output_;
  int64_t committed_len_ = 0;
  int64_t prefill_len_ = 0;
  int64_t computed_before_ = 0;
  int64_t cached_len_ = 0;
  int64_t computed_at_enqueue_ = 0;
  int64_t passed_tokens_ = 0;
  int64_t kept_len_ = 0;
  std::array<Anchor, kAnchorsMax> anchors_;
  size_t num_anchors_ = 0;
  const Sequence* leader_ = nullptr;
  int64_t leader_position_ = 0;
  int32_t slot_ = -1;
  int32_t passed_by_ = 0;
  bool is_fetching_ = false;
  Phase phase_ = Phase::kWaiting;
  bool is_paused_ = false;
};

}  // namespace yeoul
