#include "checkpoint/shard_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "checkpoint/sax_error.h"

namespace yeoul {
namespace {

constexpr int kDepthMax = 16;

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

// Event by event, since the release lists 96,085 names. Sections other than weight_map and
// metadata.total_size are passed over.
class IndexHandler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return other("null"); }
  bool boolean(bool /*value*/) { return other("true or false"); }
  bool number_integer(number_integer_t value) { return other(fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value) {
    if (!is_total_size()) return other(fmt::format("{}", value));
    index.total_size = value;
    return true;
  }
  // Some writers store the total as 510286023000.0.
  bool number_float(number_float_t value, const string_t& text) {
    if (!is_total_size() || value < 0 || value > 0x1p63 || value != std::floor(value)) {
      return other(text);
    }
    index.total_size = static_cast<uint64_t>(value);
    return true;
  }
  bool string(string_t& value);
  bool binary(binary_t& /*value*/) { return other("binary"); }
  bool start_object(size_t /*size*/) {
    const bool is_section = depth_ == 1 && (section_ == "weight_map" || section_ == "metadata");
    if (depth_ > 0 && !is_section && !other("an object")) return false;
    return descend();
  }
  bool key(string_t& name);
  bool end_object() {
    --depth_;
    return true;
  }
  bool start_array(size_t /*size*/) { return other("a list") && descend(); }
  bool end_array() {
    --depth_;
    return true;
  }
  template <typename Exception>
  bool parse_error(size_t position, const std::string& /*token*/, const Exception& exception) {
    error = describe_json_error(position, exception.what());
    return false;
  }

  ShardIndex index;
  bool has_weight_map = false;
  std::string error;

 private:
  bool in_weight_map() const { return depth_ == 2 && section_ == "weight_map"; }
  bool is_total_size() const {
    return depth_ == 2 && section_ == "metadata" && field_ == "total_size";
  }
  bool refuse(std::string message) {
    error = std::move(message);
    return false;
  }
  // A value we have no use for: fine, except where we know what must stand.
  bool other(std::string_view found);
  bool descend() {
    return ++depth_ <= kDepthMax || refuse(fmt::format("nested deeper than {} levels", kDepthMax));
  }

  int depth_ = 0;
  std::string section_;  // last key of depth 1
  std::string field_;    // last key of depth 2
  std::unordered_set<std::string> sections_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int32_t> shard_numbers_;
};

bool IndexHandler::other(std::string_view found) {
  if (depth_ == 0) return refuse(fmt::format("an object expected, {} found", found));
  if (in_weight_map()) {
    return refuse(fmt::format("weight_map[\"{}\"]: a file name expected, {} found", field_, found));
  }
  if (is_total_size()) {
    return refuse(fmt::format("metadata.total_size: a count of bytes expected, {} found", found));
  }
  if (depth_ == 1 && section_ == "weight_map") {
    return refuse(fmt::format("weight_map: an object expected, {} found", found));
  }
  return true;
}

bool IndexHandler::key(string_t& name) {
  if (depth_ == 1) {
    if (!sections_.insert(name).second) return refuse(fmt::format("\"{}\" given twice", name));
    has_weight_map = has_weight_map || name == "weight_map";
    section_ = std::move(name);
  } else if (depth_ == 2) {
    if (section_ == "weight_map" && !names_.insert(name).second) {
      return refuse(fmt::format("weight_map names {} twice", name));
    }
    field_ = std::move(name);
  }
  return true;
}

bool IndexHandler::string(string_t& value) {
  if (!in_weight_map()) return other("a string");
  if (!is_plain_file_name(value)) {
    return refuse(fmt::format("weight_map[\"{}\"]: a plain file name expected, \"{:.80}\" found",
                              field_, value));
  }
  const auto next_number = static_cast<int32_t>(index.shards.size());
  const auto [entry, is_new] = shard_numbers_.try_emplace(value, next_number);
  if (is_new) index.shards.push_back(value);
  index.entries.push_back({std::move(field_), entry->second});
  field_.clear();
  return true;
}

// Shards in ascending order of their names, entries renumbered to match.
void sort_shards(ShardIndex& index) {
  std::vector<std::string> sorted = index.shards;
  std::sort(sorted.begin(), sorted.end());
  std::vector<int32_t> new_number;
  for (const std::string& shard : index.shards) {
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), shard);
    new_number.push_back(static_cast<int32_t>(place - sorted.begin()));
  }
  for (ShardIndex::Entry& entry : index.entries) {
    entry.shard = new_number[static_cast<size_t>(entry.shard)];
  }
  index.shards = std::move(sorted);
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view json) {
  // The JSON lexer takes a NUL for the end of the text.
  if (const size_t nul = json.find('\0'); nul != std::string_view::npos) {
    return fail(ErrorCode::kCorrupt, fmt::format("invalid JSON: NUL at byte {}", nul));
  }
  IndexHandler handler;
  if (!nlohmann::json::sax_parse(json, &handler)) {
    return fail(ErrorCode::kCorrupt, std::move(handler.error));
  }
  if (!handler.has_weight_map) return fail(ErrorCode::kCorrupt, "weight_map: missing");
  sort_shards(handler.index);
  return std::move(handler.index);
}

}  // namespace yeoul
