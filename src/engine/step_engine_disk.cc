// StepEngine, prefixes on disk: who waits for one, what comes back, what is written behind.

#include <algorithm>
#include <chrono>
#include <thread>

#include "engine/step_engine.h"

namespace yeoul {

namespace {

// A stopped engine writes what it has kept for so long at most.
constexpr std::chrono::seconds kWriteOutMax{5};

}  // namespace

// A sequence about to be admitted is held while what it can go on from is brought back from disk.
// One try a request: what came back and was evicted again, or did not come, is computed. One that
// has been preempted knows more than its prompt, and what it had is in memory if anywhere.
bool StepEngine::waits_for_disk(Sequence& sequence, LiveRequest& request) {
  if (!disk_ || !sequence.output().empty()) return false;
  const bool is_known = prefill_tokens_ > 0 && options_.fetch == FetchRule::kWhenFaster;
  const DiskTier::Start start = disk_->begin_restore(
      {.request_id = request.id,
       .salt = request.request.cache_salt,
       .prompt = sequence.spec().prompt,
       .may_begin = !request.has_fetched,
       .seconds_a_token = is_known ? prefill_s_ / static_cast<double>(prefill_tokens_) : 0});
  if (start == DiskTier::Start::kNothing) return false;
  request.has_fetched = request.has_fetched || start == DiskTier::Start::kBegun;
  sequence.wait_for_fetch();
  return true;
}

// When a restore has ended, all that waited look again: what came back is in the index now.
void StepEngine::take_restored() {
  if (!disk_) return;
  const std::optional<RestoreEnd> end = disk_->advance();
  if (!end) return;
  for (Sequence* sequence : scheduler_.waiting()) sequence->end_fetch();
  for (const std::unique_ptr<LiveRequest>& request : live_)
    if (request->id == end->request_id) request->restored_tokens = end->length;
}

// Room for running sequences: what is kept of others gives way, and what is being brought back.
bool StepEngine::give_way() {
  return index_.evict() || (disk_ && disk_->drop_restore());
}

// How fast prompts are computed, from the steps in which most rows are theirs.
void StepEngine::note_prefill_rate() {
  int64_t rows = 0;
  int64_t of_prompts = 0;
  for (size_t i = 0; i < plan_.items.size(); ++i) {
    rows += plan_.items[i].num_tokens;
    if (plan_.items[i].cone_end != kFullSchedule) of_prompts += plan_.items[i].num_tokens;
  }
  if (2 * of_prompts < rows) return;
  prefill_s_ += step_s_;
  prefill_tokens_ += of_prompts;
}

// A stopped engine leaves what it has kept to the next one.
void StepEngine::finish_writing() {
  if (!disk_ || !healthy()) return;
  const auto end = std::chrono::steady_clock::now() + kWriteOutMax;
  while (disk_->write_behind() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace yeoul
