#include "scripted_text_executor.h"

#include <charconv>
#include <thread>

namespace yeoul::e2e {
namespace {

// What stands behind the last `key` of the prompt, up to the assistant's header.
std::optional<std::string> value_of(std::string_view prompt, std::string_view key) {
  const size_t at = prompt.rfind(key);
  if (at == std::string_view::npos) return std::nullopt;
  prompt.remove_prefix(at + key.size());
  return std::string(prompt.substr(0, prompt.find("<｜Assistant｜>")));
}

}  // namespace

ScriptedTextExecutor::ScriptedTextExecutor(const Options& options,
                                           std::shared_ptr<const Tokenizer> tokenizer)
    : options_(options),
      tokenizer_(std::move(tokenizer)),
      first_valid_(static_cast<size_t>(options.shape.resume.num_layers)),
      slots_(static_cast<size_t>(options.num_slots)) {
  std::vector<TokenId> ids;
  tokenizer_->encode_text("x", ids);
  filler_ = ids.at(0);
}

void ScriptedTextExecutor::open_slot(int32_t slot, const SlotSetup& setup) {
  Script script;
  script.prompt_len = std::ssize(setup.prompt);
  script.num_top_logprobs = setup.sampling->num_top_logprobs;
  const std::string prompt = tokenizer_->decode(setup.prompt);
  if (const auto text = value_of(prompt, "say:")) {
    tokenizer_->encode_with_markers(*text, script.answer);
    script.answer.push_back(*tokenizer_->marker("<｜end▁of▁sentence｜>"));
  }
  if (const auto number = value_of(prompt, "fail:")) {
    std::from_chars(number->data(), number->data() + number->size(), script.fail_at);
  }
  slots_.at(static_cast<size_t>(slot)) = std::move(script);
}

Result<void> ScriptedTextExecutor::launch(const StepPlan& plan) {
  launched_ = &plan;
  return {};
}

Result<void> ScriptedTextExecutor::collect(StepResult& result) {
  std::this_thread::sleep_for(options_.step_latency);
  result.step_id = launched_->step_id;
  result.items.resize(launched_->items.size());
  for (size_t i = 0; i < result.items.size(); ++i) answer(launched_->items[i], result.items[i]);
  return {};
}

void ScriptedTextExecutor::answer(const StepItem& item, ItemResult& result) const {
  const Script& script = slots_[static_cast<size_t>(item.slot)];
  result = ItemResult{};
  if (item.logits == LogitsFor::kNone) return;
  const int64_t index = item.position + item.num_tokens - script.prompt_len;
  if (index == script.fail_at) {
    result.status = RowStatus::kNonFinite;
    result.error = {ErrorCode::kInternal, "scripted failure"};
    return;
  }
  const auto at = static_cast<size_t>(index);
  result.token =
      script.answer.empty() ? filler_ : script.answer[std::min(at, script.answer.size() - 1)];
  result.logprob = -0.25f;
  result.num_top = std::max(script.num_top_logprobs, 0);
  for (int32_t i = 0; i < result.num_top; ++i) {
    const TokenId token = (result.token + i) % options_.shape.vocab_size;
    result.top[static_cast<size_t>(i)] = {token, -0.25f - static_cast<float>(i)};
  }
}

Result<SequenceImage> ScriptedTextExecutor::save(int32_t, std::span<const int32_t>) {
  return fail(ErrorCode::kUnsupported, "the script has no image");
}

Result<void> ScriptedTextExecutor::restore(int32_t, std::span<const int32_t>,
                                           const SequenceImage&) {
  return fail(ErrorCode::kUnsupported, "the script has no image");
}

}  // namespace yeoul::e2e
