// StepEngine, what later prompts may go on from: states found at admission, kept on the way.

#include <algorithm>

#include "engine/step_engine.h"
#include "scheduler/prefix_sharing.h"
#include "scheduler/save_points.h"

namespace yeoul {

namespace {

const char* to_string(ResumeLimit limit) {
  switch (limit) {
    case ResumeLimit::kNone:
      return "";
    case ResumeLimit::kNothingShared:
      return "nothing_shared";
    case ResumeLimit::kNoSnapshot:
      return "no_snapshot";
    case ResumeLimit::kRowsMissing:
      return "rows_missing";
  }
  return "";
}

// Where a resumed state came from: from disk if it was brought back for this very request.
const char* tier_of(int64_t cached_tokens, int64_t restored_tokens) {
  if (cached_tokens == 0) return "none";
  return restored_tokens > 0 && cached_tokens >= restored_tokens ? "disk" : "ram";
}

}  // namespace

// A sequence about to be admitted is held instead, when one that runs is about to compute more of
// its prompt than is known: it goes on from there once that is done. A leader of lower priority may
// be kept waiting itself, so none is followed.
bool StepEngine::joins_a_leader(Sequence& sequence, const LiveRequest& request) {
  if (options_.num_snapshots == 0) return false;
  const std::span<const TokenId> prompt = sequence.spec().prompt;
  Sequence* leader = nullptr;
  std::optional<Anchor> best;
  for (Sequence* running : scheduler_.running()) {
    const LiveRequest& other = *slots_[static_cast<size_t>(running->slot())].request;
    if (running->committed_len() >= running->prompt_len() || running->is_paused() ||
        running->spec().priority < sequence.spec().priority ||
        other.request.cache_salt != request.request.cache_salt)
      continue;
    const std::optional<Anchor> point =
        fork_point(shape_.resume, *running, common_prefix(prompt, running->spec().prompt),
                   sequence.known_len());
    if (!point || (best && point->position <= best->position)) continue;
    best = point;
    leader = running;
  }
  if (!best) return false;
  const PrefixMatch known =
      index_.look(request.request.cache_salt, PrefixUnits(prompt, sequence.output()));
  if (best->position < known.resume_len + kWorthWaiting || !leader->add_anchor(*best)) return false;
  sequence.wait_for(*leader, best->position);
  ++counters_.followers;
  return true;
}

// A sequence about to be admitted starts behind the longest prefix that it may go on from.
SlotResume StepEngine::resume(Sequence& sequence, LiveRequest& request) {
  if (options_.num_snapshots == 0) return {};
  PrefixLookup found = index_.lookup(request.request.cache_salt,
                                     PrefixUnits(sequence.spec().prompt, sequence.output()));
  const char* reason = to_string(found.match.limit);
  SlotResume result;
  if (found.hold) {
    result = start_behind(sequence, found);
    if (result.snapshot < 0) reason = "no_room";
  }
  if (result.snapshot < 0) found.hold.release();
  plan_anchors(sequence, request, found);
  ++counters_.prefix_lookups;
  counters_.prefix_hits += result.snapshot >= 0;
  if (sequence.computed_before() > 0) return result;
  counters_.cached_tokens += result.length;
  if (sequence.spec().choice == 0)
    request.reuse = {.shared_tokens = found.match.shared_len,
                     .candidate_tokens = found.match.candidate_len,
                     .cached_tokens = result.length,
                     .tier = tier_of(result.length, request.restored_tokens),
                     .reason = reason};
  return result;
}

// Shares the full pages of what was found and takes a page for the rest; nothing when there is no
// such page.
SlotResume StepEngine::start_behind(Sequence& sequence, const PrefixLookup& found) {
  const PageTable& from = index_.pages(found.hold.snapshot());
  const int64_t length = found.match.resume_len;
  SlotResume result = {.snapshot = found.hold.snapshot(), .length = length};
  std::optional<int32_t> copied;
  if (length % shape_.tokens_per_page != 0) {
    copied = take_page();
    if (!copied) return {};
    result.copy_from = from.pages()[static_cast<size_t>(length / shape_.tokens_per_page)];
    result.copy_to = *copied;
  }
  sequence.resume(length, from, shape_.tokens_per_page, copied);
  return result;
}

// A page for a sequence about to be admitted: what is kept of others gives way. nullopt only when
// the pool is so full of what runs that the page to copy from has no place beside the copy.
std::optional<int32_t> StepEngine::take_page() {
  std::optional<int32_t> page = pool_.try_take();
  while (!page && give_way()) page = pool_.try_take();
  return page;
}

// The anchors that the request names, and the place where it leaves what is known: others may leave
// it there too. One far from the end of the prompt gets a cone of its own, where the rows that it
// needs are there or will be computed. Near the end the cone of the prompt itself does, for every
// prompt that is at least as long.
void StepEngine::plan_anchors(Sequence& sequence, const LiveRequest& request,
                              const PrefixLookup& found) {
  const auto plan = [&](int64_t position, bool is_worth_a_cone) {
    const bool is_near_end = sequence.prompt_len() - position <= kNearEnd;
    const bool is_possible =
        !found.hold || can_resume(shape_.resume, index_.first_valid(found.hold.snapshot()),
                                  sequence.committed_len(), position);
    sequence.add_anchor(
        {.position = position, .own_cone = is_worth_a_cone && !is_near_end && is_possible});
  };
  for (const int64_t position : request.request.anchors) plan(position, true);
  // A cone costs at most half its length in tokens that run through the decoder half.
  const ResumeShape& shape = shape_.resume;
  const int64_t cone_cost = int64_t{shape.reach} * (shape.num_layers - shape.last_source) / 2;
  const int64_t gain = found.match.shared_len - sequence.committed_len();
  if (gain >= kWorthWaiting) plan(found.match.shared_len, gain >= cone_cost);
}

void StepEngine::choose_saves() {
  saves_.clear();
  if (options_.num_snapshots == 0) return;
  for (size_t i = 0; i < plan_.items.size(); ++i) {
    const StepItem& item = plan_.items[i];
    const SlotOwner& of = owner(item);
    const Sequence& sequence = of.request->choices[static_cast<size_t>(of.choice)].sequence;
    if (item.position >= sequence.prompt_len() || accepted_[i] == 0) continue;
    save_points_.clear();
    append_save_points(sequence, item.position, item.position + accepted_[i],
                       options_.snapshot_interval, save_points_);
    for (const int64_t point : save_points_)
      if (const std::optional<int32_t> number = index_.reserve_number())
        saves_.push_back({.item = static_cast<int32_t>(i),
                          .num_tokens = static_cast<int32_t>(point - item.position),
                          .snapshot = *number});
  }
}

// After the commit of the sequences: their pages hold what was saved.
void StepEngine::insert_saved() noexcept {
  for (const SnapshotSave& save : saves_) {
    const StepItem& item = plan_.items[static_cast<size_t>(save.item)];
    const SlotOwner& of = owner(item);
    Sequence& sequence = of.request->choices[static_cast<size_t>(of.choice)].sequence;
    const int64_t length = item.position + save.num_tokens;
    const uint64_t salt = of.request->request.cache_salt;
    const bool is_kept =
        index_.insert(save.snapshot, salt, PrefixUnits(sequence.spec().prompt).first(length),
                      sequence.page_table(), executor_->snapshot_first_valid(save.snapshot));
    if (is_kept && disk_) disk_->note_kept(save.snapshot, salt);
    sequence.note_kept(length);
  }
}

// A running sequence is about to end or to be preempted: what it has computed may be gone on from,
// its output included. In what is shut down nobody will.
void StepEngine::keep_state(Sequence& sequence, uint64_t salt) noexcept {
  const int64_t length = sequence.committed_len();
  if (options_.num_snapshots == 0 || length <= sequence.kept_len() || draining_.load()) return;
  const std::optional<int32_t> number = index_.reserve_number();
  if (!number) return;
  executor_->save_snapshot(sequence.slot(), *number);
  const bool is_kept = index_.insert(
      *number, salt, PrefixUnits(sequence.spec().prompt, sequence.output()).first(length),
      sequence.page_table(), executor_->snapshot_first_valid(*number));
  if (is_kept && disk_) disk_->note_kept(*number, salt);
}

}  // namespace yeoul
