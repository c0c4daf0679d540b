#include "text/tokenizer_json.h"

#include <fmt/format.h>

#include <unordered_set>

namespace yeoul {
namespace {

constexpr size_t kDepthMax = 32;  // the release's file nests 6 deep

// SAX handler: forwards to nlohmann's document builder, except inside the two long lists.
class TokenizerSax {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit TokenizerSax(TokenizerJson& out) : out_(out), dom_(out.document, false) {}

  bool null() { return list_ == List::kNone ? dom_.null() : wrong_type("null"); }
  bool boolean(bool value) {
    return list_ == List::kNone ? dom_.boolean(value) : wrong_type("a boolean");
  }
  bool number_integer(number_integer_t value) {
    return list_ == List::kNone ? dom_.number_integer(value) : wrong_type("a negative number");
  }
  bool number_unsigned(number_unsigned_t value) {
    if (list_ == List::kNone) return dom_.number_unsigned(value);
    if (list_ == List::kMerges) return wrong_type("a number");
    out_.vocab.back().second = value;
    return true;
  }
  bool number_float(number_float_t value, const string_t& text) {
    return list_ == List::kNone ? dom_.number_float(value, text) : wrong_type("a fraction");
  }
  bool string(string_t& value) {
    if (list_ == List::kNone) return dom_.string(value);
    if (list_ == List::kVocab) return wrong_type("a string");
    return in_pair_ ? add_to_pair(value) : add_merge_line(value);
  }
  bool binary(binary_t&) { return wrong_type("binary data"); }

  bool start_object(size_t size) {
    if (list_ != List::kNone) return wrong_type("an object");
    if (path_is("vocab")) {
      list_ = List::kVocab;
      return dom_.null();
    }
    return descend() && dom_.start_object(size);
  }
  bool end_object() {
    if (list_ == List::kVocab) {
      list_ = List::kNone;
      return true;
    }
    levels_.pop_back();
    return dom_.end_object();
  }
  bool start_array(size_t size) {
    if (list_ == List::kVocab || in_pair_) return wrong_type("an array");
    if (list_ == List::kMerges) {
      in_pair_ = true;
      pair_.clear();
      return true;
    }
    if (path_is("merges")) {
      list_ = List::kMerges;
      return dom_.null();
    }
    return descend() && dom_.start_array(size);
  }
  bool end_array() {
    if (in_pair_) return end_pair();
    if (list_ == List::kMerges) {
      list_ = List::kNone;
      return true;
    }
    levels_.pop_back();
    return dom_.end_array();
  }
  bool key(string_t& name) {
    if (list_ == List::kVocab) {
      if (!vocab_keys_.insert(name).second) return stop("duplicate key", name);
      out_.vocab.emplace_back(name, 0);
      return true;
    }
    if (!levels_.back().keys.insert(name).second) return stop("duplicate key", name);
    levels_.back().key = name;
    return dom_.key(name);
  }
  template <typename Exception>
  bool parse_error(size_t position, const std::string& /*token*/, const Exception& exception) {
    std::string_view text = exception.what();
    const size_t start = text.find("] ");  // drops "[json.exception.parse_error.101] "
    if (start != std::string_view::npos) text.remove_prefix(start + 2);
    error = fmt::format("{} (byte {})", text, position);
    return false;
  }

  std::string error;

 private:
  enum class List { kNone, kVocab, kMerges };
  struct Level {
    std::string key;  // of an object: the key whose value is being read
    std::unordered_set<std::string> keys;
  };

  bool stop(std::string_view what, std::string_view name) {
    error = fmt::format("{} \"{}\"", what, name);
    return false;
  }
  bool wrong_type(std::string_view found) {
    if (list_ == List::kVocab) {
      error =
          fmt::format("model.vocab[\"{}\"]: id expected, found {}", out_.vocab.back().first, found);
    } else {
      error = fmt::format("model.merges[{}]: \"left right\" or [left, right] expected, found {}",
                          out_.merges.size(), found);
    }
    return false;
  }
  bool path_is(std::string_view list) const {
    return levels_.size() == 2 && levels_[0].key == "model" && levels_[1].key == list;
  }
  bool descend() {
    levels_.emplace_back();
    if (levels_.size() <= kDepthMax) return true;
    error = fmt::format("nested deeper than {} levels", kDepthMax);
    return false;
  }
  bool add_merge_line(const std::string& line) {
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
      return wrong_type(fmt::format("\"{}\"", line));
    }
    out_.merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    return true;
  }
  bool add_to_pair(const std::string& token) {
    if (pair_.size() == 2) return wrong_type("three strings");
    pair_.push_back(token);
    return true;
  }
  bool end_pair() {
    in_pair_ = false;
    if (pair_.size() != 2) return wrong_type(fmt::format("{} strings", pair_.size()));
    out_.merges.emplace_back(pair_[0], pair_[1]);
    return true;
  }

  TokenizerJson& out_;
  nlohmann::detail::json_sax_dom_parser<Json> dom_;
  std::vector<Level> levels_;  // one an open object or array of the document
  List list_ = List::kNone;
  std::unordered_set<std::string> vocab_keys_;
  bool in_pair_ = false;
  std::vector<std::string> pair_;
};

}  // namespace

Result<TokenizerJson> read_tokenizer_json(std::string_view text) {
  TokenizerJson out;
  TokenizerSax sax(out);
  if (!Json::sax_parse(text, &sax)) {
    return fail(ErrorCode::kCorrupt, "tokenizer.json: " + sax.error);
  }
  return out;
}

}  // namespace yeoul
