#include "scripted_executor.h"

#include <fmt/format.h>

#include "base/counter_rng.h"
#include "cache/page_pool.h"

namespace yeoul::simulation {

namespace {

constexpr uint64_t kHashSeed = 0x79656f756cull;

uint64_t extend(uint64_t prefix, TokenId token) {
  return mix64(prefix ^ static_cast<uint64_t>(token));
}

}  // namespace

uint64_t hash_tokens(std::span<const TokenId> tokens) {
  uint64_t hash = kHashSeed;
  for (const TokenId token : tokens) hash = extend(hash, token);
  return hash;
}

TokenId Script::token(uint64_t prompt_hash, uint64_t seed, int32_t choice, int64_t position) const {
  const uint64_t key = counter_key(prompt_hash ^ seed, static_cast<uint64_t>(choice),
                                   static_cast<uint64_t>(position));
  return static_cast<TokenId>(counter_bits(key, 0) % static_cast<uint64_t>(vocab_size));
}

std::optional<RowStatus> Script::fault(uint64_t prompt_hash, uint64_t seed, int32_t choice,
                                       int64_t position) const {
  if (fault_rate <= 0) return std::nullopt;
  const uint64_t key = counter_key(prompt_hash ^ seed ^ fault_seed, static_cast<uint64_t>(choice),
                                   static_cast<uint64_t>(position));
  if (unit_interval(counter_bits(key, 1)) >= fault_rate) return std::nullopt;
  return counter_bits(key, 2) % 2 == 0 ? RowStatus::kNonFinite : RowStatus::kReadFailed;
}

ScriptedExecutor::ScriptedExecutor(const Options& options, VirtualClock* clock, ExecutorLog& log)
    : options_(options), clock_(clock), log_(log) {
  slots_.resize(static_cast<size_t>(options.num_slots));
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
  entry.prompt_hash = hash_tokens(setup.prompt);
  entry.seed = setup.sampling->seed;
  entry.choice = setup.choice;
  entry.prompt_len = std::ssize(setup.prompt);
  entry.tokens.assign(setup.prompt.begin(), setup.prompt.end());
  entry.prefix.clear();
  ++log_.slots_opened;
  ++log_.slots_open;
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
  const bool is_prefill = item.position < slot.prompt_len;
  if (item.cone_end != (is_prefill ? slot.prompt_len : kFullSchedule)) violation(item, "cone");
  const bool ends_known = end == std::ssize(slot.tokens);
  if (item.logits != (ends_known ? LogitsFor::kLastToken : LogitsFor::kNone))
    violation(item, "logits");
  check_pages(plan, item);
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
  if (clock_ != nullptr)
    clock_->advance(options_.step_latency + options_.token_latency * std::ssize(plan.tokens));
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
  for (int64_t i = 0; i < item.num_tokens; ++i) {
    const int64_t position = item.position + i;
    const auto fault = script.fault(slot.prompt_hash, slot.seed, slot.choice, position);
    if (!fault) continue;
    ++log_.items_failed;
    result.status = *fault;
    result.error = *fault == RowStatus::kNonFinite
                       ? Error{ErrorCode::kInternal, fmt::format("NaN at position {}", position)}
                       : Error{ErrorCode::kUnavailable, fmt::format("read at {}", position)};
    return;
  }
  if (item.logits == LogitsFor::kNone) return;
  result.token =
      script.token(slot.prompt_hash, slot.seed, slot.choice, item.position + item.num_tokens - 1);
  result.logprob = -static_cast<float>(result.token);
}

void ScriptedExecutor::commit(const StepPlan& plan, const StepResult& result,
                              std::span<const int32_t> num_accepted) noexcept {
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
    for (int64_t j = 0; j < num_accepted[i]; ++j) {
      const TokenId token = slot.tokens[static_cast<size_t>(item.position + j)];
      slot.prefix.push_back(extend(slot.prefix.empty() ? kHashSeed : slot.prefix.back(), token));
      row(plan, item, item.position + j) = slot.prefix.back();
    }
    if (item.logits != LogitsFor::kNone) slot.tokens.push_back(result.items[i].token);
  }
}

Result<SequenceImage> ScriptedExecutor::save(int32_t slot, std::span<const int32_t>) {
  return fail(ErrorCode::kUnsupported, fmt::format("slot {}: the script has no image", slot));
}

Result<void> ScriptedExecutor::restore(int32_t slot, std::span<const int32_t>,
                                       const SequenceImage&) {
  return fail(ErrorCode::kUnsupported, fmt::format("slot {}: the script has no image", slot));
}

}  // namespace yeoul::simulation
