#include "engine/model_executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace yeoul {
namespace {

constexpr const char* kPrefillMode = "exact";

LogitRows logit_rows(LogitsFor logits) {
  switch (logits) {
    case LogitsFor::kNone:
      return LogitRows::kNone;
    case LogitsFor::kLastToken:
      return LogitRows::kLast;
    case LogitsFor::kEveryToken:
      return LogitRows::kEvery;
  }
  return LogitRows::kNone;
}

}  // namespace

ModelExecutor::ModelExecutor(std::unique_ptr<LoadedModel> model)
    : model_(std::move(model)), sampler_(model_->config().vocab_size) {
  const ForwardLimits& limits = model_->plan().forward;
  slots_.resize(static_cast<size_t>(limits.slots));
  for (Slot& slot : slots_) {
    slot.tokens.reserve(static_cast<size_t>(limits.context_max));
    slot.counts.emplace(model_->config().vocab_size);
  }
  allowed_.resize((static_cast<size_t>(model_->config().vocab_size) + 63) / 64);
  tokens_.reserve(static_cast<size_t>(limits.rows_max));
  items_.reserve(static_cast<size_t>(limits.items_max));
  result_.items.reserve(static_cast<size_t>(limits.items_max));
}

ModelShape ModelExecutor::shape() const {
  const ModelConfig& config = model_->config();
  const bool has_sources = !config.kv_source_layer_ids.empty();
  const ResumeShape resume = {
      .num_layers = config.num_hidden_layers,
      .last_source = has_sources ? config.kv_source_layer_ids.back() : config.num_hidden_layers,
      .reach = config.sliding_window - 1};
  return {.num_layers = config.num_hidden_layers,
          .vocab_size = config.vocab_size,
          .context_max = model_->plan().context_max,
          .tokens_per_page = model_->kv().layout().tokens_per_page,
          .bytes_per_page = model_->kv().layout().page_bytes,
          .resume = resume};
}

WeightTraffic ModelExecutor::weight_traffic() const {
  const ExpertTraffic& experts = model_->weights().experts().traffic();
  const EngramTraffic& engram = model_->weights().engram_rows().traffic();
  return {.expert_hits = experts.hits,
          .expert_misses = experts.misses,
          .expert_bytes_read = experts.bytes_read,
          .expert_wait_s = experts.wait_s,
          .engram_rows = engram.rows_wanted,
          .engram_rows_kept = engram.rows_kept,
          .engram_reads = engram.reads,
          .engram_wait_s = engram.wait_s};
}

void ModelExecutor::open_slot(int32_t index, const SlotSetup& setup) {
  Slot& slot = slot_at(index);
  CHECK(!slot.is_open, "slot {} is open already", index);
  slot.setup = setup;
  slot.is_open = true;
  slot.tokens.clear();
  slot.counts->reset();
  slot.counts->add_prompt(setup.prompt);
  for (const TokenId token : setup.output) slot.counts->add_output(token);
  model_->kv().open_slot(index);
  const SlotResume& resume = setup.resume;
  if (resume.snapshot < 0) return;
  const auto length = static_cast<size_t>(resume.length);
  CHECK(length < setup.prompt.size() + setup.output.size(), "resumes at {} of {} + {}", length,
        setup.prompt.size(), setup.output.size());
  model_->kv().restore_snapshot(resume.snapshot, index);
  if (resume.copy_from >= 0) {
    model_->kv().copy_rows(resume.copy_from, resume.copy_to,
                           resume.length % model_->kv().layout().tokens_per_page);
  }
  const auto from_prompt = static_cast<ptrdiff_t>(std::min(length, setup.prompt.size()));
  const auto from_output = static_cast<ptrdiff_t>(length) - from_prompt;
  slot.tokens.assign(setup.prompt.begin(), setup.prompt.begin() + from_prompt);
  slot.tokens.insert(slot.tokens.end(), setup.output.begin(), setup.output.begin() + from_output);
}

void ModelExecutor::close_slot(int32_t index) {
  Slot& slot = slot_at(index);
  CHECK(slot.is_open, "slot {} is not open", index);
  slot.setup = {};
  slot.is_open = false;
}

// Tokens that an earlier step sampled take their place.
void ModelExecutor::resolve_pending(const StepPlan& plan) {
  tokens_.assign(plan.tokens.begin(), plan.tokens.end());
  for (const PendingToken& pending : plan.pending) {
    CHECK(pending.step_id == result_.step_id &&
              static_cast<size_t>(pending.item) < result_.items.size(),
          "step {} asks for item {} of step {}; the last step was {}", plan.step_id, pending.item,
          pending.step_id, result_.step_id);
    tokens_[static_cast<size_t>(pending.token_index)] =
        result_.items[static_cast<size_t>(pending.item)].token;
  }
}

Result<void> ModelExecutor::launch(const StepPlan& plan) {
  CHECK(!is_staged_, "step {} was launched and not committed", result_.step_id);
  resolve_pending(plan);
  items_.clear();
  for (const StepItem& item : plan.items) {
    const Slot& slot = slot_at(item.slot);
    CHECK(slot.is_open, "step {} uses closed slot {}", plan.step_id, item.slot);
    items_.push_back({.slot = item.slot,
                      .position = item.position,
                      .first_row = item.first_token,
                      .num_rows = item.num_tokens,
                      .pages = plan.pages.data() + item.first_page,
                      .layer_begin = item.layers.begin,
                      .layer_end = item.layers.end,
                      .cone_end = item.cone_end,
                      .logits = logit_rows(item.logits)});
  }
  model_->forward().run({items_, tokens_});
  result_.step_id = plan.step_id;
  result_.items.resize(plan.items.size());
  const std::span<const ItemOutcome> outcomes = model_->forward().outcomes();
  for (size_t i = 0; i < plan.items.size(); ++i) {
    sample_item(plan.items[i], outcomes[i], result_.items[i]);
  }
  is_staged_ = true;
  return {};
}

void ModelExecutor::sample_item(const StepItem& item, const ItemOutcome& outcome,
                                ItemResult& result) {
  result.status = RowStatus::kOk;
  result.num_top = 0;
  if (!outcome.status) {
    const bool is_read = outcome.status.error().code == ErrorCode::kUnavailable;
    result.status = is_read ? RowStatus::kReadFailed : RowStatus::kNonFinite;
    result.error = outcome.status.error();
    return;
  }
  if (outcome.num_logit_rows == 0) return;
  const Slot& slot = slot_at(item.slot);
  SampleInput input{
      .logits = model_->forward().logits(outcome.first_logit_row + outcome.num_logit_rows - 1),
      .params = slot.setup.sampling,
      .choice = slot.setup.choice,
      .position = item.position + item.num_tokens,
      .counts = &*slot.counts,
      .allowed = {}};
  if (slot.setup.constraint != nullptr) {
    std::fill(allowed_.begin(), allowed_.end(), ~uint64_t{0});
    if (slot.setup.constraint->mask_next(allowed_)) input.allowed = allowed_;
  }
  SampleOutput output;
  const SampleStatus status = sampler_.sample(input, output);
  if (status != SampleStatus::kOk) {
    result.status = RowStatus::kNonFinite;
    result.error = {ErrorCode::kInternal, status == SampleStatus::kNonFinite
                                              ? "the logits are not finite"
                                              : "the constraint allows no token"};
    return;
  }
  result.token = output.token;
  if (slot.setup.sampling->num_top_logprobs < 0) return;
  result.logprob = output.logprob;
  result.num_top = output.num_top;
  for (size_t t = 0; t < static_cast<size_t>(output.num_top); ++t) {
    result.top[t] = {output.top_tokens[t], output.top_logprobs[t]};
  }
}

Result<void> ModelExecutor::collect(StepResult& result) {
  result.step_id = result_.step_id;
  result.items.assign(result_.items.begin(), result_.items.end());
  return {};
}

// Commits the item up to each state to keep, keeps it, and goes on.
void ModelExecutor::commit_item(const ItemInput& item, int32_t num_accepted,
                                std::span<const SnapshotSave> saves) noexcept {
  ItemInput rest = item;
  const auto commit_up_to = [&](int32_t num_tokens) {
    const auto count = num_tokens - static_cast<int32_t>(rest.position - item.position);
    model_->forward().commit_rows(rest, count);
    rest.position += count;
    rest.first_row += count;
    rest.num_rows -= count;
  };
  for (const SnapshotSave& save : saves) {
    CHECK(save.num_tokens <= num_accepted, "{} of {} tokens", save.num_tokens, num_accepted);
    commit_up_to(save.num_tokens);
    model_->kv().save_snapshot(item.slot, save.snapshot);
  }
  commit_up_to(num_accepted);
}

void ModelExecutor::commit(const StepPlan& plan, const StepResult& result,
                           std::span<const int32_t> num_accepted,
                           std::span<const SnapshotSave> saves) noexcept {
  CHECK(is_staged_ && plan.step_id == result_.step_id);
  for (size_t i = 0; i < plan.items.size(); ++i) {
    size_t num_saves = 0;
    while (num_saves < saves.size() && saves[num_saves].item == static_cast<int32_t>(i))
      ++num_saves;
    commit_item(items_[i], num_accepted[i], saves.first(num_saves));
    saves = saves.subspan(num_saves);
    const StepItem& item = plan.items[i];
    Slot& slot = slot_at(item.slot);
    const auto accepted = static_cast<size_t>(num_accepted[i]);
    if (item.layers.end == model_->config().num_hidden_layers) {
      const auto begin = tokens_.begin() + item.first_token;
      slot.tokens.insert(slot.tokens.end(), begin, begin + static_cast<int64_t>(accepted));
    }
    if (accepted > 0 && item.logits != LogitsFor::kNone &&
        result.items[i].status == RowStatus::kOk) {
      slot.counts->add_output(result.items[i].token);
    }
  }
  is_staged_ = false;
}

void ModelExecutor::save_snapshot(int32_t slot, int32_t snapshot) noexcept {
  CHECK(slot_at(slot).is_open && !is_staged_);
  model_->kv().save_snapshot(slot, snapshot);
}

std::span<const int64_t> ModelExecutor::snapshot_first_valid(int32_t snapshot) const {
  return model_->kv().snapshot_first_valid(snapshot);
}

// Tokens of a page and layout are the build's; a build that changes them changes the version.
StateUnits ModelExecutor::state_units() const {
  return {.identity = fmt::format("{} {} {} {} tokens a page, state 1", model_->identity(),
                                  model_->numerics_id(), kPrefillMode, kTokensPerPage),
          .page_bytes = page_bytes(kTokensPerPage),
          .state_bytes_max = KvStore::state_bytes_max(model_->config())};
}

int64_t ModelExecutor::page_bytes(int64_t num_tokens) const {
  return model_->kv().rows_bytes(num_tokens);
}

void ModelExecutor::export_page(int32_t page, int64_t num_tokens, std::vector<uint8_t>& out) const {
  model_->kv().append_rows(page, num_tokens, out);
}

Result<void> ModelExecutor::import_page(int32_t page, int64_t num_tokens,
                                        std::span<const uint8_t> bytes) {
  return model_->kv().read_rows(page, num_tokens, bytes);
}

void ModelExecutor::export_state(int32_t snapshot, int64_t length,
                                 std::vector<uint8_t>& out) const {
  model_->kv().append_snapshot(snapshot, length, out);
}

Result<void> ModelExecutor::import_state(int32_t snapshot, int64_t length,
                                         std::span<const uint8_t> bytes) {
  return model_->kv().read_snapshot(snapshot, length, bytes);
}

Result<SequenceImage> ModelExecutor::save(int32_t index, std::span<const int32_t> pages) {
  const Slot& slot = slot_at(index);
  CHECK(slot.is_open && !is_staged_);
  SlotState state = model_->kv().save(index, pages, static_cast<int64_t>(slot.tokens.size()));
  SequenceImage image;
  image.model_identity = model_->identity();
  image.numerics_id = model_->numerics_id();
  image.prefill_mode = kPrefillMode;
  image.tokens = slot.tokens;
  image.pages = std::move(state.pages);
  image.window = std::move(state.window);
  image.window_first_valid = std::move(state.window_first_valid);
  image.partial_pairs = std::move(state.partial_pairs);
  image.seed = slot.setup.sampling->seed;
  image.choice = slot.setup.choice;
  return image;
}

Result<void> ModelExecutor::restore(int32_t index, std::span<const int32_t> pages,
                                    const SequenceImage& image) {
  Slot& slot = slot_at(index);
  CHECK(slot.is_open && slot.tokens.empty() && !is_staged_);
  const auto expect = [](const char* what, const std::string& expected,
                         const std::string& found) -> Result<void> {
    if (expected == found) return {};
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sequence image: {} {} expected, {} found", what, expected, found));
  };
  TRY(expect("model", model_->identity(), image.model_identity));
  TRY(expect("numerics", model_->numerics_id(), image.numerics_id));
  TRY(expect("prefill mode", kPrefillMode, image.prefill_mode));
  const auto length = static_cast<int64_t>(image.tokens.size());
  if (length > model_->plan().context_max) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("sequence image: at most {} tokens expected, {} found",
                            model_->plan().context_max, length));
  }
  for (const TokenId token : image.tokens) {
    if (token >= 0 && token < model_->config().vocab_size) continue;
    return fail(ErrorCode::kCorrupt, fmt::format("sequence image: token {} of {} found", token,
                                                 model_->config().vocab_size));
  }
  TRY(model_->kv().restore(
      index, pages, length,
      {image.pages, image.window, image.window_first_valid, image.partial_pairs},
      model_->forward().history_of(image.tokens)));
  slot.tokens.assign(image.tokens.begin(), image.tokens.end());
  for (size_t i = slot.setup.prompt.size(); i < image.tokens.size(); ++i) {
    slot.counts->add_output(image.tokens[i]);
  }
  return {};
}

}  // namespace yeoul
