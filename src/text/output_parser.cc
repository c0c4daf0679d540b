#include "text/output_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/json.h"
#include "text/output_tag.h"

namespace yeoul {
namespace {

// A name with its closing quote and attributes is at most this long; longer is not markup.
constexpr size_t kNameBytesMax = 4096;

bool is_white_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

// As Python's json.dumps(ensure_ascii=False) writes the inside of a string; byte by byte, so that a
// value may be cut anywhere.
void append_escaped(std::string_view text, std::string& out) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<uint8_t>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
}

}  // namespace

class OutputParser::State {
  enum class Place : uint8_t { kReasoning, kContent, kCalls, kInvoke, kValue, kAfter };
  enum class Value : uint8_t { kString, kJson, kSkipped };

 public:
  explicit State(Options options)
      : options_(options),
        place_(options.starts_in_tool_calls  ? Place::kCalls
               : options.starts_in_reasoning ? Place::kReasoning
                                             : Place::kContent),
        at_start_(!options.continues_text) {}

  void push(std::string_view text, std::vector<OutputEvent>& out) {
    out_ = &out;
    out_begin_ = out.size();
    buffer_ += text;
    while (position_ < buffer_.size() && step()) {
    }
    buffer_.erase(0, std::exchange(position_, 0));
  }

  void finish(std::vector<OutputEvent>& out) {
    out_ = &out;
    out_begin_ = out.size();
    const std::string rest = std::exchange(buffer_, {});
    switch (place_) {
      case Place::kReasoning:
        emit_text(rest);
        emit<ReasoningDelta>(std::exchange(newlines_, {}));
        report("the reasoning has no end: </think> is missing");
        break;
      case Place::kContent:
        emit_text(rest);
        emit<ContentDelta>(std::exchange(newlines_, {}));
        break;
      case Place::kCalls:
        report("the calls block is not closed");
        break;
      case Place::kInvoke:
      case Place::kValue:
        report(fmt::format("the call of \"{}\" is not finished", call_name_));
        if (place_ == Place::kValue) end_value();
        if (place_ == Place::kInvoke) end_call();
        break;
      case Place::kAfter:
        break;
    }
    place_ = Place::kAfter;
  }

 private:
  // Consumes from the front of rest(); false when more text is needed to decide.
  bool step() {
    switch (place_) {
      case Place::kReasoning:
      case Place::kContent:
        return step_text();
      case Place::kCalls:
      case Place::kInvoke:
        return step_markup();
      case Place::kValue:
        return step_value();
      case Place::kAfter:
        return step_after();
    }
    return false;
  }

  std::string_view rest() const { return std::string_view(buffer_).substr(position_); }

  // Passes on what stands before the next '<' and returns what stands at it; kNone consumes the
  // '<'.
  template <typename PassOn>
  FoundTag next_tag(std::span<const TagSpelling> tags, const PassOn& pass_on) {
    const size_t plain = std::min(rest().find('<'), rest().size());
    if (plain > 0) pass_on(rest().substr(0, plain));
    position_ += plain;
    if (rest().empty()) return {TagMatch::kPrefix, {}};
    const FoundTag found = match_tag(rest(), tags);
    if (found.match == TagMatch::kNone) {
      pass_on(rest().substr(0, 1));
      position_ += 1;
    }
    return found;
  }

  bool step_text() {
    const auto tags =
        options_.parse_tool_calls ? std::span<const TagSpelling>(kTextTags) : kTextTagsWithoutCalls;
    const FoundTag found = next_tag(tags, [this](std::string_view text) { emit_text(text); });
    if (found.match != TagMatch::kWhole) return found.match == TagMatch::kNone;
    position_ += found.spelling.text.size();
    if (found.spelling.tag == Tag::kCallsBegin) {
      if (place_ == Place::kReasoning) report("a calls block inside the reasoning");
      place_ = Place::kCalls;
      newlines_.clear();
    } else if (place_ == Place::kReasoning) {
      place_ = Place::kContent;
      at_start_ = true;
      newlines_.clear();
    } else {
      report("</think> outside the reasoning");
    }
    return true;
  }

  // Newlines at the start are dropped; newlines at the end wait, because markup that follows drops
  // them too.
  void emit_text(std::string_view text) {
    if (at_start_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    if (text.empty()) return;
    at_start_ = false;
    const size_t last = text.find_last_not_of('\n');
    if (last == std::string_view::npos) {
      newlines_ += text;
      return;
    }
    std::string body = std::exchange(newlines_, std::string(text.substr(last + 1)));
    body += text.substr(0, last + 1);
    if (place_ == Place::kReasoning) {
      emit<ReasoningDelta>(std::move(body));
    } else {
      emit<ContentDelta>(std::move(body));
    }
  }

  // Between tags: white space is layout, anything else is reported once and dropped.
  bool step_markup() {
    const FoundTag found = next_tag(kCallTags, [this](std::string_view text) {
      if (std::all_of(text.begin(), text.end(), is_white_space) || reported_stray_) return;
      reported_stray_ = true;
      report("text between the tags of a calls block");
    });
    if (found.match != TagMatch::kWhole) return found.match == TagMatch::kNone;
    const size_t tag_bytes = found.spelling.text.size();
    switch (found.spelling.tag) {
      case Tag::kInvokeBegin:
        return begin_call(tag_bytes);
      case Tag::kParameterBegin:
        return begin_parameter(tag_bytes);
      default:
        position_ += tag_bytes;
        reported_stray_ = false;
        close(found.spelling.tag);
        return true;
    }
  }

  // A closing tag of any level; levels inside it that are still open are closed and reported.
  void close(Tag tag) {
    if (place_ == Place::kValue) {
      if (tag != Tag::kParameterEnd) report("a parameter without its closing tag");
      end_value();
    } else if (tag == Tag::kParameterEnd) {
      report("a parameter is closed that is not open");
    }
    if (tag == Tag::kParameterEnd) return;
    if (place_ == Place::kInvoke) {
      if (tag != Tag::kInvokeEnd)
        report(fmt::format("the call of \"{}\" is not closed", call_name_));
      end_call();
    } else if (tag == Tag::kInvokeEnd) {
      report("a call is closed that is not open");
    }
    if (tag == Tag::kCallsEnd) place_ = Place::kAfter;
  }

  // The rest of an opening tag after the quote: up to `">`. Nothing when it is not complete yet, or
  // when it is too long to be one; then the tag is consumed as stray text.
  std::optional<std::string> read_attributes(size_t tag_bytes) {
    const std::string_view attributes = rest().substr(tag_bytes);
    const size_t end = attributes.substr(0, kNameBytesMax).find("\">");
    if (end != std::string_view::npos) {
      position_ += tag_bytes + end + 2;
      return std::string(attributes.substr(0, end));
    }
    if (attributes.size() < kNameBytesMax) return std::nullopt;
    report("an opening tag without end");
    reported_stray_ = true;
    position_ += tag_bytes;
    return std::nullopt;
  }

  bool begin_call(size_t tag_bytes) {
    const size_t begin = position_;
    std::optional<std::string> name = read_attributes(tag_bytes);
    if (!name) return position_ != begin;
    reported_stray_ = false;
    if (place_ == Place::kInvoke) {
      report(fmt::format("the call of \"{}\" is not closed", call_name_));
      end_call();
    }
    place_ = Place::kInvoke;
    call_name_ = std::move(*name);
    parameters_.clear();
    emit_event(ToolCallBegin{call_index_, call_name_});
    return true;
  }

  bool begin_parameter(size_t tag_bytes) {
    const size_t begin = position_;
    std::optional<std::string> name = read_attributes(tag_bytes);
    if (!name) return position_ != begin;
    reported_stray_ = false;
    constexpr std::string_view string_attribute = "\" string=\"true";
    constexpr std::string_view json_attribute = "\" string=\"false";
    value_kind_ = Value::kString;
    if (name->ends_with(string_attribute)) {
      name->resize(name->size() - string_attribute.size());
    } else if (name->ends_with(json_attribute)) {
      name->resize(name->size() - json_attribute.size());
      value_kind_ = Value::kJson;
    } else {
      report(fmt::format("parameter \"{}\" does not say whether it is a string", *name));
    }
    if (place_ != Place::kInvoke) {
      report(fmt::format("parameter \"{}\" outside a call", *name));
      value_kind_ = Value::kSkipped;
    } else if (std::find(parameters_.begin(), parameters_.end(), *name) != parameters_.end()) {
      report(fmt::format("parameter \"{}\" is there twice; the first one counts", *name));
      value_kind_ = Value::kSkipped;
    }
    place_after_value_ = place_;
    place_ = Place::kValue;
    value_json_.clear();
    if (value_kind_ == Value::kSkipped) return true;
    std::string json = parameters_.empty() ? "{\"" : ", \"";
    append_escaped(*name, json);
    json += value_kind_ == Value::kString ? "\": \"" : "\": ";
    emit_arguments(std::move(json));
    parameters_.push_back(std::move(*name));
    return true;
  }

  bool step_value() {
    const FoundTag found =
        next_tag(kValueTags, [this](std::string_view text) { emit_value(text); });
    if (found.match != TagMatch::kWhole) return found.match == TagMatch::kNone;
    position_ += found.spelling.text.size();
    close(found.spelling.tag);
    return true;
  }

  void emit_value(std::string_view text) {
    std::string json;
    switch (value_kind_) {
      case Value::kSkipped:
        return;
      case Value::kString:
        append_escaped(text, json);
        break;
      case Value::kJson:
        json = text;
        value_json_ += text;
        break;
    }
    emit_arguments(std::move(json));
  }

  void end_value() {
    place_ = place_after_value_;
    if (value_kind_ == Value::kString) emit_arguments("\"");
    if (value_kind_ == Value::kJson) {
      const auto value = parse_json(value_json_);
      if (!value) {
        report(fmt::format("parameter \"{}\" is not JSON: {}", parameters_.back(),
                           value.error().message));
      }
    }
  }

  void end_call() {
    emit_arguments(parameters_.empty() ? "{}" : "}");
    emit_event(ToolCallEnd{call_index_});
    ++call_index_;
    place_ = Place::kCalls;
  }

  bool step_after() {
    if (!std::all_of(rest().begin(), rest().end(), is_white_space) && !reported_stray_) {
      reported_stray_ = true;
      report("text after the calls block");
    }
    position_ = buffer_.size();
    return false;
  }

  void report(std::string message) { emit_event(OutputProblem{std::move(message)}); }
  void emit_event(OutputEvent event) { out_->push_back(std::move(event)); }

  // Joins the text to the last event of this push where that is of the same kind.
  template <typename Delta>
  void emit(std::string text) {
    if (text.empty()) return;
    Delta* last = out_->size() > out_begin_ ? std::get_if<Delta>(&out_->back()) : nullptr;
    if (last != nullptr) {
      last->text += text;
    } else {
      emit_event(Delta{std::move(text)});
    }
  }
  void emit_arguments(std::string json) {
    if (json.empty()) return;
    auto* last =
        out_->size() > out_begin_ ? std::get_if<ToolCallArgumentsDelta>(&out_->back()) : nullptr;
    if (last != nullptr && last->index == call_index_) {
      last->json += json;
    } else {
      emit_event(ToolCallArgumentsDelta{call_index_, std::move(json)});
    }
  }

  Options options_;
  Place place_;
  std::string buffer_;   // between pushes: at most the beginning of a tag, or an unfinished opening
  size_t position_ = 0;  // of buffer_: consumed so far; 0 between pushes
  bool at_start_;        // of the reasoning or the content
  std::string newlines_;         // held back at the end of the reasoning or the content
  bool reported_stray_ = false;  // the present run of stray text is reported
  int call_index_ = 0;
  std::string call_name_;
  std::vector<std::string> parameters_;  // names so far, of the present call
  Value value_kind_ = Value::kString;
  Place place_after_value_ = Place::kInvoke;  // kCalls for a value outside a call
  std::string value_json_;                    // of a JSON value, to check it as a whole
  std::vector<OutputEvent>* out_ = nullptr;   // of the present push
  size_t out_begin_ = 0;
};

OutputParser::OutputParser(Options options) : state_(std::make_unique<State>(options)) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::push(std::string_view text, std::vector<OutputEvent>& out) {
  state_->push(text, out);
}

void OutputParser::finish(std::vector<OutputEvent>& out) {
  state_->finish(out);
}

}  // namespace yeoul
