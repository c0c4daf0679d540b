#include "scheduler/step_plan.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "base/json.h"

namespace yeoul {

namespace {

const char* to_string(LogitsFor logits) {
  switch (logits) {
    case LogitsFor::kNone:
      return "none";
    case LogitsFor::kLastToken:
      return "last";
    case LogitsFor::kEveryToken:
      return "every";
  }
  return "?";
}

// Integers of an item in the order they are written.
Json item_to_json(const StepItem& item) {
  return Json{{"slot", item.slot},
              {"position", item.position},
              {"num_tokens", item.num_tokens},
              {"num_draft", item.num_draft},
              {"first_token", item.first_token},
              {"first_page", item.first_page},
              {"num_pages", item.num_pages},
              {"layers", {item.layers.begin, item.layers.end}},
              {"cone_end", item.cone_end},
              {"logits", to_string(item.logits)}};
}

template <typename T>
Result<void> to_integer(const Json& value, const char* name, T& out) {
  if (!value.is_number_integer())
    return fail(ErrorCode::kCorrupt, fmt::format("step plan: field '{}' is not an integer", name));
  const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>())
                                               : std::in_range<T>(value.get<int64_t>());
  if (!fits)
    return fail(ErrorCode::kCorrupt,
                fmt::format("step plan: field '{}' is out of range: {}", name, value.dump()));
  out = value.get<T>();
  return {};
}

// Reads the integer field `name` of `object` into `out`.
template <typename T>
Result<void> read_integer(const Json& object, const char* name, T& out) {
  const auto field = object.find(name);
  if (field == object.end())
    return fail(ErrorCode::kCorrupt, fmt::format("step plan: field '{}' is missing", name));
  return to_integer(*field, name, out);
}

Result<void> read_integers(const Json& object, const char* name, std::vector<int32_t>& out) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_array())
    return fail(ErrorCode::kCorrupt, fmt::format("step plan: field '{}' is not an array", name));
  for (const Json& entry : *field) {
    int32_t value = 0;
    TRY(to_integer(entry, name, value));
    out.push_back(value);
  }
  return {};
}

Result<void> read_logits(const Json& object, LogitsFor& out) {
  const auto field = object.find("logits");
  if (field != object.end() && field->is_string()) {
    for (const LogitsFor value :
         {LogitsFor::kNone, LogitsFor::kLastToken, LogitsFor::kEveryToken}) {
      if (field->get_ref<const std::string&>() != to_string(value)) continue;
      out = value;
      return {};
    }
  }
  return fail(ErrorCode::kCorrupt, "step plan: field 'logits' is not none, last or every");
}

Result<StepItem> item_from_json(const Json& object) {
  if (!object.is_object()) return fail(ErrorCode::kCorrupt, "step plan: item is not an object");
  StepItem item;
  TRY(read_integer(object, "slot", item.slot));
  TRY(read_integer(object, "position", item.position));
  TRY(read_integer(object, "num_tokens", item.num_tokens));
  TRY(read_integer(object, "num_draft", item.num_draft));
  TRY(read_integer(object, "first_token", item.first_token));
  TRY(read_integer(object, "first_page", item.first_page));
  TRY(read_integer(object, "num_pages", item.num_pages));
  TRY(read_integer(object, "cone_end", item.cone_end));
  TRY(read_logits(object, item.logits));
  std::vector<int32_t> layers;
  TRY(read_integers(object, "layers", layers));
  if (layers.size() != 2)
    return fail(ErrorCode::kCorrupt, "step plan: 'layers' is not [begin, end]");
  item.layers = {layers[0], layers[1]};
  return item;
}

bool is_inside(int32_t first, int32_t count, size_t size) {
  return first >= 0 && count >= 0 &&
         static_cast<size_t>(first) + static_cast<size_t>(count) <= size;
}

// Offsets and counts stay inside the plan's arrays, so that a replay cannot read beyond them.
Result<void> check_spans(const StepPlan& plan) {
  for (const StepItem& item : plan.items) {
    if (!is_inside(item.first_token, item.num_tokens, plan.tokens.size()) ||
        !is_inside(item.first_page, item.num_pages, plan.pages.size()))
      return fail(ErrorCode::kCorrupt,
                  fmt::format("step plan: item of slot {} names tokens {}+{} of {}, pages {}+{} of "
                              "{}",
                              item.slot, item.first_token, item.num_tokens, plan.tokens.size(),
                              item.first_page, item.num_pages, plan.pages.size()));
  }
  for (const PendingToken& pending : plan.pending)
    if (!is_inside(pending.token_index, 1, plan.tokens.size()))
      return fail(ErrorCode::kCorrupt, fmt::format("step plan: pending token {} of {}",
                                                   pending.token_index, plan.tokens.size()));
  return {};
}

}  // namespace

std::string to_string(const StepPlan& plan) {
  std::string text = fmt::format("step {}: {} items, {} tokens\n", plan.step_id, plan.items.size(),
                                 plan.tokens.size());
  for (const StepItem& item : plan.items) {
    fmt::format_to(std::back_inserter(text),
                   "  slot {} positions [{}, {}) draft {} layers [{}, {})", item.slot,
                   item.position, item.position + item.num_tokens, item.num_draft,
                   item.layers.begin, item.layers.end);
    if (item.cone_end != kFullSchedule)
      fmt::format_to(std::back_inserter(text), " cone {}", item.cone_end);
    fmt::format_to(std::back_inserter(text), " logits {} pages {}\n", to_string(item.logits),
                   item.num_pages);
  }
  return text;
}

std::string serialize(const StepPlan& plan) {
  Json items = Json::array();
  for (const StepItem& item : plan.items) items.push_back(item_to_json(item));
  Json pending = Json::array();
  for (const PendingToken& token : plan.pending)
    pending.push_back(
        Json{{"token_index", token.token_index}, {"step_id", token.step_id}, {"item", token.item}});
  return dump_compact(Json{{"step_id", plan.step_id},
                           {"items", std::move(items)},
                           {"tokens", plan.tokens},
                           {"pages", plan.pages},
                           {"pending", std::move(pending)}});
}

Result<StepPlan> parse_step_plan(std::string_view text) {
  TRY_ASSIGN(const Json root, parse_json(text));
  if (!root.is_object()) return fail(ErrorCode::kCorrupt, "step plan: not an object");
  for (const char* name : {"items", "pending"})
    if (!root.contains(name) || !root[name].is_array())
      return fail(ErrorCode::kCorrupt, fmt::format("step plan: field '{}' is not an array", name));
  StepPlan plan;
  TRY(read_integer(root, "step_id", plan.step_id));
  TRY(read_integers(root, "tokens", plan.tokens));
  TRY(read_integers(root, "pages", plan.pages));
  for (const Json& entry : root["items"]) {
    TRY_ASSIGN(const StepItem item, item_from_json(entry));
    plan.items.push_back(item);
  }
  for (const Json& entry : root["pending"]) {
    if (!entry.is_object())
      return fail(ErrorCode::kCorrupt, "step plan: pending token is not an object");
    PendingToken pending;
    TRY(read_integer(entry, "token_index", pending.token_index));
    TRY(read_integer(entry, "step_id", pending.step_id));
    TRY(read_integer(entry, "item", pending.item));
    plan.pending.push_back(pending);
  }
  TRY(check_spans(plan));
  return plan;
}

}  // namespace yeoul
