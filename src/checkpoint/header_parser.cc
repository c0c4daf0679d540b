#include "checkpoint/header_parser.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "checkpoint/sax_error.h"

namespace yeoul {
namespace {

constexpr size_t kRankMax = 8;
constexpr int kMetadataDepthMax = 16;

// Receives the JSON text event by event: a document of 2,000 tensors never becomes a tree.
class HeaderHandler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return unexpected("null"); }
  bool boolean(bool /*value*/) { return unexpected("true or false"); }
  bool number_integer(number_integer_t value) { return unexpected(fmt::format("{}", value)); }
  bool number_unsigned(number_unsigned_t value);
  // Everything beyond 64 bits arrives here too.
  bool number_float(number_float_t /*value*/, const string_t& text) { return unexpected(text); }
  bool string(string_t& value);
  bool binary(binary_t& /*value*/) { return unexpected("binary"); }
  bool start_object(size_t /*size*/);
  bool key(string_t& name);
  bool end_object();
  bool start_array(size_t /*size*/);
  bool end_array();
  template <typename Exception>
  bool parse_error(size_t position, const std::string& /*token*/, const Exception& exception) {
    error = {ErrorCode::kCorrupt, describe_json_error(position, exception.what())};
    return false;
  }

  std::vector<HeaderTensor> tensors;
  Error error;

 private:
  enum class Place {
    kStart,       // before the outer object
    kNames,       // in the outer object
    kTensor,      // after a tensor's name
    kFields,      // in a tensor's object
    kDtype,       // after "dtype"
    kShape,       // after "shape"
    kDims,        // in its array
    kOffsets,     // after "data_offsets"
    kOffsetPair,  // in its array
    kMetadata,    // in or right after "__metadata__"
    kEnd,
  };

  bool refuse(std::string message, ErrorCode code = ErrorCode::kCorrupt) {
    const bool in_tensor = place_ != Place::kStart && place_ != Place::kNames &&
                           place_ != Place::kMetadata && place_ != Place::kEnd;
    error = {code,
             in_tensor ? fmt::format("{}: {}", tensors.back().name, message) : std::move(message)};
    return false;
  }
  bool unexpected(std::string_view found);

  Place place_ = Place::kStart;
  int metadata_depth_ = 0;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  int num_offsets_ = -1;  // -1: no "data_offsets" yet
  std::unordered_set<std::string> names_;
};

bool HeaderHandler::unexpected(std::string_view found) {
  switch (place_) {
    case Place::kStart:
    case Place::kEnd:
      return refuse(fmt::format("a JSON object expected, {} found", found));
    case Place::kNames:
    case Place::kTensor:
    case Place::kFields:
      return refuse(
          fmt::format("an object with dtype, shape and data_offsets expected, {} found", found));
    case Place::kDtype:
      return refuse(fmt::format("dtype: a string expected, {} found", found));
    case Place::kShape:
      return refuse(fmt::format("shape: a list expected, {} found", found));
    case Place::kDims:
      return refuse(fmt::format("shape: integers from 0 to 2^63 - 1 expected, {} found", found));
    case Place::kOffsets:
      return refuse(fmt::format("data_offsets: a list expected, {} found", found));
    case Place::kOffsetPair:
      return refuse(
          fmt::format("data_offsets: integers from 0 to 2^64 - 1 expected, {} found", found));
    case Place::kMetadata:
      return metadata_depth_ > 0 || refuse("__metadata__: an object expected");
  }
  return false;
}

bool HeaderHandler::number_unsigned(number_unsigned_t value) {
  if (place_ == Place::kDims) {
    if (!std::in_range<int64_t>(value)) return unexpected(fmt::format("{}", value));
    if (tensors.back().shape.size() == kRankMax) {
      return refuse(fmt::format("shape: more than {} dimensions", kRankMax));
    }
    tensors.back().shape.push_back(static_cast<int64_t>(value));
    return true;
  }
  if (place_ == Place::kOffsetPair) {
    if (num_offsets_ == 2) return refuse("data_offsets: two numbers expected, more found");
    (num_offsets_ == 0 ? tensors.back().begin : tensors.back().end) = value;
    ++num_offsets_;
    return true;
  }
  return unexpected(fmt::format("{}", value));
}

bool HeaderHandler::string(string_t& value) {
  if (place_ == Place::kDtype) {
    const std::optional<Dtype> dtype = parse_dtype(value);
    if (!dtype) {
      return refuse(fmt::format("dtype: F32, BF16, F8_E4M3, F8_E8M0 or I8 expected, \"{:.40}\" "
                                "found",
                                value),
                    ErrorCode::kUnsupported);
    }
    tensors.back().dtype = *dtype;
    place_ = Place::kFields;
    return true;
  }
  return unexpected("a string");
}

bool HeaderHandler::start_object(size_t /*size*/) {
  switch (place_) {
    case Place::kStart:
      place_ = Place::kNames;
      return true;
    case Place::kTensor:
      place_ = Place::kFields;
      return true;
    case Place::kMetadata:
      return ++metadata_depth_ <= kMetadataDepthMax || refuse("__metadata__: nested too deeply");
    default:
      return unexpected("an object");
  }
}

bool HeaderHandler::key(string_t& name) {
  if (place_ == Place::kMetadata) return true;
  if (place_ == Place::kNames) {
    if (!names_.insert(name).second) return refuse(fmt::format("{}: named twice", name));
    if (name == "__metadata__") {
      place_ = Place::kMetadata;
      return true;
    }
    tensors.emplace_back();
    tensors.back().name = std::move(name);
    has_dtype_ = has_shape_ = false;
    num_offsets_ = -1;
    place_ = Place::kTensor;
    return true;
  }
  const bool is_repeated = (name == "dtype" && std::exchange(has_dtype_, true)) ||
                           (name == "shape" && std::exchange(has_shape_, true)) ||
                           (name == "data_offsets" && num_offsets_ >= 0);
  if (is_repeated) return refuse(fmt::format("{} given twice", name));
  if (name == "dtype") {
    place_ = Place::kDtype;
  } else if (name == "shape") {
    place_ = Place::kShape;
  } else if (name == "data_offsets") {
    place_ = Place::kOffsets;
  } else {
    return refuse(fmt::format("unknown field \"{:.40}\"", name));
  }
  return true;
}

bool HeaderHandler::end_object() {
  if (place_ == Place::kMetadata) {
    if (--metadata_depth_ == 0) place_ = Place::kNames;
    return true;
  }
  if (place_ == Place::kNames) {
    place_ = Place::kEnd;
    return true;
  }
  if (!has_dtype_) return refuse("dtype is missing");
  if (!has_shape_) return refuse("shape is missing");
  if (num_offsets_ < 0) return refuse("data_offsets is missing");
  place_ = Place::kNames;
  return true;
}

bool HeaderHandler::start_array(size_t /*size*/) {
  switch (place_) {
    case Place::kShape:
      place_ = Place::kDims;
      return true;
    case Place::kOffsets:
      place_ = Place::kOffsetPair;
      num_offsets_ = 0;
      return true;
    case Place::kMetadata:
      if (metadata_depth_ == 0) return unexpected("a list");
      return ++metadata_depth_ <= kMetadataDepthMax || refuse("__metadata__: nested too deeply");
    default:
      return unexpected("a list");
  }
}

bool HeaderHandler::end_array() {
  if (place_ == Place::kMetadata) {
    --metadata_depth_;
    return true;
  }
  if (place_ == Place::kOffsetPair && num_offsets_ != 2) {
    return refuse(fmt::format("data_offsets: two numbers expected, {} found", num_offsets_));
  }
  place_ = Place::kFields;
  return true;
}

}  // namespace

Result<std::vector<HeaderTensor>> parse_header_entries(std::string_view json) {
  // The JSON lexer takes a NUL for the end of the text; what follows one would go unread.
  if (json.empty() || json.front() != '{') {
    return fail(ErrorCode::kCorrupt, "the header does not start with \"{\"");
  }
  if (json.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::kCorrupt, fmt::format("NUL in the header at byte {}", json.find('\0')));
  }
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json, &handler)) {
    return tl::unexpected<Error>(std::move(handler.error));
  }
  return std::move(handler.tensors);
}

}  // namespace yeoul
