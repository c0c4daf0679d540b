#pragma once

#include <cstddef>
#include <cstdint>
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

// One token stream of a request and how far it is. Lengths are intervals of positions:
//   [0, committed_len)          KV is in the pages; can no longer change
//   [committed_len, known_len)  token ids known, not computed: the rest of the prompt, or the
//                               token sampled last
// Thread-confined to the engine thread once enqueued.
class Sequence {
 public:
  enum class Phase : uint8_t { kWaiting, kRunning, kEnded };

  Sequence(const SequenceSpec& spec, PagePool& pool) : spec_(spec), pages_(pool) {}

  const SequenceSpec& spec() const { return spec_; }
  Phase phase() const { return phase_; }
  int32_t slot() const { return slot_; }
  int64_t prompt_len() const { return static_cast<int64_t>(spec_.prompt.size()); }
  int64_t known_len() const { return prompt_len() + static_cast<int64_t>(output_.size()); }
  int64_t committed_len() const { return committed_len_; }
  std::span<const TokenId> output() const { return output_; }
  const PageTable& page_table() const { return pages_; }
  TokenId token_at(int64_t position) const;

  // Pages it holds at most: the last output token is never computed, so its position needs none.
  int64_t pages_max(int64_t tokens_per_page) const {
    return pages_for(prompt_len() + spec_.output_max - 1, tokens_per_page);
  }

  // Allocates what a running sequence needs to the end: kResourceExhausted when memory is short.
  Result<void> reserve_memory(int64_t tokens_per_page);

  // Waiting -> running.
  void start(int32_t slot);

  // The step's first `num_tokens` tokens from committed_len() on are final. Takes over the pages
  // that were reserved for them.
  void commit(int64_t num_tokens, int32_t num_new_pages, PageReservation& reserved) noexcept;
  void append_output(TokenId token) noexcept;

  // -> ended: gives the pages back.
  void end() noexcept;

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
  int32_t slot_ = -1;
  int32_t passed_by_ = 0;
  Phase phase_ = Phase::kWaiting;
  bool is_paused_ = false;
};

}  // namespace yeoul
