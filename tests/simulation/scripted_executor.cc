#include "scripted_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/counter_rng.h"
#include "cache/page_pool.h"

namespace yeoul::simulation {

uint64_t hash_tokens(std::span<const TokenId> tokens) {
  uint64_t hash = kEmptyPrefix;
  for (const TokenId token : tokens) hash = extend(hash, token);
  return hash;
}

ScriptedExecutor::ScriptedExecutor(const Options& options, VirtualClock* clock, ExecutorLog& log)
    : options_(options), clock_(clock), log_(log) {
  slots_.resize(static_cast<size_t>(options.num_slots), Slot(options.shape.resume));
  snapshots_.resize(static_cast<size_t>(options.num_snapshots),
                    ScriptedState(options.shape.resume));
  cone_.compute(options.shape.resume, 1);
  staged_.reserve(static_cast<size_t>(options.shape.context_max));
  for (Slot& slot : slots_) {
    slot.tokens.reserve(static_cast<size_t>(options.shape.context_max));
    slot.prefix.reserve(static_cast<size_t>(options.shape.context_max));
  }
  rows_.resize(static_cast<size_t>(options.num_pages) *
               static_cast<size_t>(options.shape.tokens_per_page));
  page_seen_in_.resize(static_cast<size_t>(options.num_pages));
}

void ScriptedExecutor::open_slot(int32_t slot, const SlotSetup& setup) {
  Slot& entry = slots_.at(static_cast<size_t>(slot));
  if (entry.is_open) log_.violations.push_back(fmt::format("slot {} was opened twice", slot));
  entry.is_open = true;
  entry.seed = setup.sampling->seed;
  entry.choice = setup.choice;
  entry.tokens.assign(setup.prompt.begin(), setup.prompt.end());
  entry.tokens.insert(entry.tokens.end(), setup.output.begin(), setup.output.end());
  entry.prefill_len = std::ssize(entry.tokens);
  entry.prefix.clear();
  entry.state.clear();
  if (setup.resume.snapshot >= 0) resume(entry, setup.resume);
  ++log_.slots_opened;
  ++log_.slots_open;
}

void ScriptedExecutor::resume(Slot& slot, const SlotResume& from) {
  ++log_.slots_resumed;
  const auto snapshot = static_cast<size_t>(from.snapshot);
  slot.state =
      snapshots_.at(options_.restores_wrongly ? (snapshot + 1) % snapshots_.size() : snapshot);
  for (int64_t i = 0; i < from.length; ++i)
    slot.prefix.push_back(
        extend(i == 0 ? kEmptyPrefix : slot.prefix.back(), slot.tokens.at(static_cast<size_t>(i))));
  const int64_t tokens_per_page = options_.shape.tokens_per_page;
  if ((from.length % tokens_per_page != 0) != (from.copy_from >= 0))
    log_.violations.push_back(
        fmt::format("resumes at {} with copy of page {}", from.length, from.copy_from));
  if (from.copy_from < 0) return;
  for (int64_t i = 0; i < from.length % tokens_per_page; ++i)
    rows_[static_cast<size_t>(from.copy_to * tokens_per_page + i)] =
        rows_[static_cast<size_t>(from.copy_from * tokens_per_page + i)];
}

void ScriptedExecutor::close_slot(int32_t slot) {
  Slot& entry = slots_.at(static_cast<size_t>(slot));
  if (!entry.is_open) log_.violations.push_back(fmt::format("slot {} was closed twice", slot));
  entry.is_open = false;
  --log_.slots_open;
}

void ScriptedExecutor::violation(const StepItem& item, const std::string& what) {
  log_.violations.push_back(fmt::format("slot {} position {}: {}", item.slot, item.position, what));
}

Result<void> ScriptedExecutor::launch(const StepPlan& plan) {
  if (log_.device_lost) log_.violations.push_back("a launch after the device was lost");
  if (log_.record_plans) log_.plans.push_back(serialize(plan));
  if (plan.step_id != committed_step_ + 1)
    log_.violations.push_back(
        fmt::format("step {} was launched after step {}", plan.step_id, committed_step_));
  if (options_.script.lose_at_launch == plan.step_id) {
    log_.device_lost = true;
    return fail(ErrorCode::kUnavailable, "scripted loss at launch");
  }
  for (size_t i = 0; i < plan.items.size(); ++i) {
    check_item(plan, plan.items[i]);
    for (size_t j = 0; j < i; ++j)
      if (plan.items[j].slot == plan.items[i].slot) violation(plan.items[i], "two items of a slot");
  }
  launched_ = &plan;
  return {};
}

void ScriptedExecutor::check_item(const StepPlan& plan, const StepItem& item) {
  const Slot& slot = slot_of(item);
  const int64_t end = item.position + item.num_tokens;
  if (!slot.is_open) violation(item, "the slot is not open");
  if (item.num_tokens < 1) violation(item, "an item without tokens");
  if (item.position != std::ssize(slot.prefix))
    return violation(item, fmt::format("{} positions are committed", slot.prefix.size()));
  if (end > std::ssize(slot.tokens))
    return violation(item, fmt::format("{} tokens are known", slot.tokens.size()));
  for (int64_t i = 0; i < item.num_tokens; ++i)
    if (plan.tokens[static_cast<size_t>(item.first_token + i)] !=
        slot.tokens[static_cast<size_t>(item.position + i)])
      violation(item, fmt::format("token {} of the item is another one", i));
  if (item.layers != LayerRange{0, options_.shape.num_layers}) violation(item, "layer range");
  const bool is_prefill = item.position < slot.prefill_len;
  // Up to an anchor inside the prompt, or to its end.
  if (is_prefill ? item.cone_end < end || item.cone_end > slot.prefill_len
                 : item.cone_end != kFullSchedule)
    violation(item, fmt::format("cone {}", item.cone_end));
  const bool ends_known = end == std::ssize(slot.tokens);
  if (item.logits != (ends_known ? LogitsFor::kLastToken : LogitsFor::kNone))
    violation(item, "logits");
  check_pages(plan, item);
  check_windows(item);
}

// Each layer holds what the first row that passes through it looks back to.
void ScriptedExecutor::check_windows(const StepItem& item) {
  const ScriptedState& state = slot_of(item).state;
  const ResumeShape& shape = options_.shape.resume;
  if (state.length() != item.position)
    violation(item, fmt::format("the state is that of {} tokens", state.length()));
  cone_.compute(shape, item.cone_end);
  for (int32_t layer = 0; layer < shape.num_layers; ++layer) {
    const int64_t output = std::max(item.position, cone_.output_begin[static_cast<size_t>(layer)]);
    if (output >= item.position + item.num_tokens) continue;
    const int64_t begin = std::max<int64_t>(0, output - shape.reach);
    if (!state.holds_from(layer, begin))
      return violation(item, fmt::format("layer {} has no window rows from {} on", layer, begin));
  }
}

// Digest of what the last row of the item reads, from where it is kept.
uint64_t ScriptedExecutor::read_rows(const StepItem& item) {
  const StepPlan& plan = *launched_;
  const ScriptedState& state = slot_of(item).state;
  const ResumeShape& shape = options_.shape.resume;
  const int64_t end = item.position + item.num_tokens;
  staged_.clear();
  uint64_t hash = state.prefix_hash();
  for (int64_t i = 0; i < item.num_tokens; ++i)
    staged_.push_back(hash = extend(hash, plan.tokens[static_cast<size_t>(item.first_token + i)]));
  uint64_t digest = hash;
  for (int64_t position = 0; position < item.position; ++position)
    digest ^= row(plan, item, position);
  for (const uint64_t staged : staged_) digest ^= staged;
  for (int32_t layer = 0; layer < shape.num_layers; ++layer)
    for (int64_t position = std::max<int64_t>(0, end - 1 - shape.reach); position < end; ++position)
      digest ^= position < item.position
                    ? state.row(layer, position)
                    : window_row(staged_[static_cast<size_t>(position - item.position)], layer);
  return digest;
}

void ScriptedExecutor::check_pages(const StepPlan& plan, const StepItem& item) {
  const Slot& slot = slot_of(item);
  if (item.num_pages != pages_for(item.position + item.num_tokens, options_.shape.tokens_per_page))
    return violation(item, fmt::format("{} pages", item.num_pages));
  ++stamp_;
  for (int32_t i = 0; i < item.num_pages; ++i) {
    const int32_t page = plan.pages[static_cast<size_t>(item.first_page + i)];
    if (page < 0 || page >= options_.num_pages)
      return violation(item, fmt::format("page {} of {}", page, options_.num_pages));
    uint64_t& seen_in = page_seen_in_[static_cast<size_t>(page)];
    if (seen_in == stamp_) violation(item, fmt::format("page {} stands there twice", page));
    seen_in = stamp_;
  }
  for (int64_t position = 0; position < item.position; ++position)
    if (row(plan, item, position) != slot.prefix[static_cast<size_t>(position)])
      return violation(item,
                       fmt::format("the page row of position {} is another prefix's", position));
}

uint64_t& ScriptedExecutor::row(const StepPlan& plan, const StepItem& item, int64_t position) {
  const int64_t tokens_per_page = options_.shape.tokens_per_page;
  const int64_t page =
      plan.pages[static_cast<size_t>(item.first_page + position / tokens_per_page)];
  return rows_[static_cast<size_t>(page * tokens_per_page + position % tokens_per_page)];
}

Result<void> ScriptedExecutor::collect(StepResult& result) {
  const StepPlan& plan = *launched_;
  if (clock_ != nullptr) {
    const auto rows = std::ranges::count(plan.items, kFullSchedule, &StepItem::cone_end);
    const Duration duration = options_.step_latency + options_.row_latency * rows +
                              options_.token_latency * (std::ssize(plan.tokens) - rows);
    const double factor = 1 + options_.jitter * (2 * unit_interval(mix64(plan.step_id)) - 1);
    clock_->advance(
        Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor)));
  }
  if (options_.script.lose_at_collect == plan.step_id) {
    log_.device_lost = true;
    return fail(ErrorCode::kUnavailable, "scripted loss at collect");
  }
  result.step_id = plan.step_id;
  result.items.resize(plan.items.size());
  for (size_t i = 0; i < plan.items.size(); ++i) answer(plan.items[i], result.items[i]);
  return {};
}

void ScriptedExecutor::answer(const StepItem& item, ItemResult& result) {
  const Slot& slot = slot_of(item);
  const Script& script = options_.script;
  result = ItemResult{};
  const uint64_t digest = read_rows(item);
  for (int64_t i = 0; i < item.num_tokens; ++i) {
    const int64_t position = item.position + i;
    const auto fault = script.fault(staged_[static_cast<size_t>(i)]);
    if (!fault) continue;
    ++log_.items_failed;
    result.status = *fault;
    result.error = *fault == RowStatus::kNonFinite
                       ? Error{ErrorCode::kInternal, fmt::format("NaN at position {}", position)}
                       : Error{ErrorCode::kUnavailable, fmt::format("read at {}", position)};
    return;
  }
  if (item.logits == LogitsFor::kNone) return;
  result.token = script.token(digest, slot.seed, slot.choice, item.position + item.num_tokens - 1);
  result.logprob = -static_cast<float>(result.token);
}

void ScriptedExecutor::commit(const StepPlan& plan, const StepResult& result,
                              std::span<const int32_t> num_accepted,
                              std::span<const SnapshotSave> saves) noexcept {
  if (launched_ != &plan || result.step_id != plan.step_id)
    log_.violations.push_back(fmt::format("commit of step {}, which does not run", plan.step_id));
  launched_ = nullptr;
  committed_step_ = plan.step_id;
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const StepItem& item = plan.items[i];
    Slot& slot = slot_of(item);
    if (num_accepted[i] == 0) continue;  // ends with an error
    if (num_accepted[i] != item.num_tokens || result.items[i].status != RowStatus::kOk)
      violation(item, fmt::format("{} of {} tokens accepted", num_accepted[i], item.num_tokens));
    cone_.compute(options_.shape.resume, item.cone_end);
    for (int32_t j = 0; j < num_accepted[i]; ++j) {
      commit_token(plan, item, item.position + j);
      for (; !saves.empty() && saves[0].item == static_cast<int32_t>(i) &&
             saves[0].num_tokens == j + 1;
           saves = saves.subspan(1))
        save_snapshot(item.slot, saves[0].snapshot);
    }
    if (item.logits != LogitsFor::kNone) slot.tokens.push_back(result.items[i].token);
  }
  if (!saves.empty()) log_.violations.push_back("a state to save that no item leads to");
}

void ScriptedExecutor::commit_token(const StepPlan& plan, const StepItem& item, int64_t position) {
  Slot& slot = slot_of(item);
  const TokenId token = slot.tokens[static_cast<size_t>(position)];
  slot.prefix.push_back(extend(slot.prefix.empty() ? kEmptyPrefix : slot.prefix.back(), token));
  slot.state.append(position, extend(slot.state.prefix_hash(), token), cone_);
  row(plan, item, position) = slot.state.prefix_hash();
  ++log_.tokens_computed;
  for (const int64_t begin : cone_.output_begin) log_.layer_tokens_computed += position >= begin;
}

void ScriptedExecutor::save_snapshot(int32_t slot, int32_t snapshot) noexcept {
  if (launched_ != nullptr) log_.violations.push_back("a state is saved while a step runs");
  const Slot& from = slots_.at(static_cast<size_t>(slot));
  if (!from.is_open) log_.violations.push_back(fmt::format("slot {} has no state", slot));
  snapshots_.at(static_cast<size_t>(snapshot)) = from.state;
  ++log_.states_saved;
}

Result<SequenceImage> ScriptedExecutor::save(int32_t slot, std::span<const int32_t>) {
  return fail(ErrorCode::kUnsupported, fmt::format("slot {}: the script has no image", slot));
}

Result<void> ScriptedExecutor::restore(int32_t slot, std::span<const int32_t>,
                                       const SequenceImage&) {
  return fail(ErrorCode::kUnsupported, fmt::format("slot {}: the script has no image", slot));
}

}  // namespace yeoul::simulation
