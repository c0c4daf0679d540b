#include "api/models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"

namespace yeoul {
namespace {

// OpenAI's fields, and the context under the name that vLLM's clients read.
Json entry_of(const ServedModel& model, std::string_view name) {
  Json entry;
  entry["id"] = name;
  entry["object"] = "model";
  entry["created"] = model.created;
  entry["owned_by"] = "yeoul";
  entry["root"] = model.names.front();
  entry["parent"] = nullptr;
  entry["max_model_len"] = model.context_max;
  return entry;
}

}  // namespace

std::string format_models(const ServedModel& model) {
  Json list = Json::array();
  for (const std::string& name : model.names) list.push_back(entry_of(model, name));
  Json out;
  out["object"] = "list";
  out["data"] = std::move(list);
  return dump_compact(out);
}

ApiResult<void> check_model(const ServedModel& model, std::string_view name) {
  if (std::ranges::find(model.names, name) != model.names.end()) return {};
  return refuse({ErrorCode::kNotFound,
                 fmt::format("model: \"{}\" is not served here; served: {}", name.substr(0, 200),
                             fmt::join(model.names, ", ")),
                 "model", "model_not_found"});
}

ApiResult<std::string> format_model(const ServedModel& model, std::string_view name) {
  if (auto known = check_model(model, name); !known) return refuse(std::move(known.error()));
  return dump_compact(entry_of(model, name));
}

}  // namespace yeoul
