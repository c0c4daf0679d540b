#include "text/tokenizer_file.h"

#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace yeoul {
namespace {

constexpr uint64_t kVocabularyMax = kMergeIdsMax;  // the release has 129,280 ids

using TokenIds = std::unordered_map<std::string, TokenId>;

tl::unexpected<Error> corrupt(std::string message) {
  return fail(ErrorCode::kCorrupt, "tokenizer.json: " + std::move(message));
}

tl::unexpected<Error> unsupported(std::string message) {
  return fail(ErrorCode::kUnsupported, "tokenizer.json: " + std::move(message));
}

// object[key], or null.
const Json& at(const Json& object, std::string_view key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto entry = object.find(std::string(key));
  return entry == object.end() ? null : *entry;
}

bool is_absent_or(const Json& value, const Json& expected) {
  return value.is_null() || value == expected;
}

// Files differ in which characters they write with a needless backslash.
std::string without_needless_escapes(std::string pattern) {
  for (const auto& [escape, character] :
       {std::pair{"\\r", "\r"}, std::pair{"\\n", "\n"}, std::pair{"\\\"", "\""}}) {
    for (size_t found; (found = pattern.find(escape)) != std::string::npos;) {
      pattern.replace(found, 2, character);
    }
  }
  return pattern;
}

Result<void> check_split(const Json& split, size_t index) {
  const Json& pattern = at(at(split, "pattern"), "Regex");
  const std::string spelling =
      pattern.is_string() ? without_needless_escapes(pattern.get<std::string>()) : "";
  if (at(split, "type") != "Split" || spelling != kSplitPatterns[index]) {
    return unsupported(
        fmt::format("pre_tokenizer.pretokenizers[{}]: split pattern {} expected, "
                    "found {}",
                    index, dump_compact(Json(kSplitPatterns[index])), dump_compact(split)));
  }
  if (at(split, "behavior") != "Isolated" || !is_absent_or(at(split, "invert"), false)) {
    return unsupported(
        fmt::format("pre_tokenizer.pretokenizers[{}]: behavior Isolated without "
                    "invert expected, found {}",
                    index, dump_compact(split)));
  }
  return {};
}

Result<void> check_pre_tokenizer(const Json& pre_tokenizer) {
  const Json& steps = at(pre_tokenizer, "pretokenizers");
  if (at(pre_tokenizer, "type") != "Sequence" || !steps.is_array() ||
      steps.size() != kSplitPatterns.size() + 1) {
    return unsupported("pre_tokenizer: a Sequence of three Splits and ByteLevel expected, found " +
                       dump_compact(pre_tokenizer));
  }
  for (size_t i = 0; i < kSplitPatterns.size(); ++i) TRY(check_split(steps[i], i));
  const Json& last = steps.back();
  if (at(last, "type") != "ByteLevel" || at(last, "add_prefix_space") != false ||
      at(last, "use_regex") != false) {
    return unsupported(
        "pre_tokenizer.pretokenizers[3]: ByteLevel without prefix space and regex "
        "expected, found " +
        dump_compact(last));
  }
  return {};
}

Result<void> check_scheme(const Json& document) {
  const Json& model = at(document, "model");
  if (at(model, "type") != "BPE") {
    return unsupported("model.type: \"BPE\" expected, found " + dump_compact(at(model, "type")));
  }
  for (const char* key : {"dropout", "unk_token"}) {
    if (!at(model, key).is_null()) {
      return unsupported(
          fmt::format("model.{}: null expected, found {}", key, dump_compact(at(model, key))));
    }
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!is_absent_or(at(model, key), "")) {
      return unsupported(
          fmt::format("model.{}: nothing expected, found {}", key, dump_compact(at(model, key))));
    }
  }
  for (const char* key : {"byte_fallback", "ignore_merges"}) {
    if (!is_absent_or(at(model, key), false)) {
      return unsupported(
          fmt::format("model.{}: false expected, found {}", key, dump_compact(at(model, key))));
    }
  }
  for (const char* key : {"truncation", "padding"}) {
    if (!at(document, key).is_null()) {
      return unsupported(
          fmt::format("{}: null expected, found {}", key, dump_compact(at(document, key))));
    }
  }
  const Json& normalizer = at(document, "normalizer");
  const bool is_empty_sequence =
      at(normalizer, "type") == "Sequence" && at(normalizer, "normalizers") == Json::array();
  if (!normalizer.is_null() && !is_empty_sequence) {
    return unsupported("normalizer: none expected, found " + dump_compact(normalizer));
  }
  for (const char* key : {"post_processor", "decoder"}) {
    if (!is_absent_or(at(at(document, key), "type"), "ByteLevel")) {
      return unsupported(fmt::format("{}: ByteLevel or none expected, found {}", key,
                                     dump_compact(at(document, key))));
    }
  }
  return check_pre_tokenizer(at(document, "pre_tokenizer"));
}

Result<TokenId> checked_id(uint64_t id, std::string_view where) {
  if (id < kVocabularyMax) return static_cast<TokenId>(id);
  return corrupt(fmt::format("{}: id below {} expected, found {}", where, kVocabularyMax, id));
}

// Puts `entry` under `id`; the same entry may come twice (added tokens may stand in the
// vocabulary).
Result<void> place(TokenizerFile& file, TokenId id, const std::string& entry) {
  const auto index = static_cast<size_t>(id);
  if (index >= file.entries.size()) file.entries.resize(index + 1);
  if (!file.entries[index].empty() && file.entries[index] != entry) {
    return corrupt(fmt::format("id {}: one entry expected, found \"{}\" and \"{}\"", id,
                               file.entries[index], entry));
  }
  file.entries[index] = entry;
  return {};
}

Result<TokenIds> read_vocab(const TokenizerJson& json, TokenizerFile& file) {
  TokenIds ids;
  ids.reserve(json.vocab.size());
  for (const auto& [entry, number] : json.vocab) {
    const std::string where = fmt::format("model.vocab[\"{}\"]", entry);
    if (entry.empty()) return corrupt(where + ": a non-empty entry expected");
    TRY_ASSIGN(const TokenId id, checked_id(number, where));
    TRY(place(file, id, entry));
    ids.emplace(entry, id);
  }
  return ids;
}

Result<void> read_added_tokens(const Json& list, const TokenIds& ids, TokenizerFile& file) {
  if (list.is_null()) return {};
  if (!list.is_array()) return corrupt("added_tokens: array expected");
  std::unordered_set<std::string> spellings;
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& token = list[i];
    const std::string where = fmt::format("added_tokens[{}]", i);
    const Json& content = at(token, "content");
    if (!content.is_string() || content.get_ref<const std::string&>().empty()) {
      return corrupt(where + ".content: text expected, found " + dump_compact(content));
    }
    if (!at(token, "id").is_number_unsigned()) {
      return corrupt(where + ".id: id expected, found " + dump_compact(at(token, "id")));
    }
    for (const char* key : {"single_word", "lstrip", "rstrip"}) {
      if (!is_absent_or(at(token, key), false)) {
        return unsupported(fmt::format("{}.{}: false expected, found {}", where, key,
                                       dump_compact(at(token, key))));
      }
    }
    AddedToken added{.spelling = content.get<std::string>(),
                     .is_normalized = at(token, "normalized") == true};
    TRY_ASSIGN(added.id, checked_id(at(token, "id").get<uint64_t>(), where + ".id"));
    const auto in_vocab = ids.find(added.spelling);
    if (in_vocab != ids.end() && in_vocab->second != added.id) {
      return corrupt(fmt::format("{}.id: {} as in model.vocab expected, found {}", where,
                                 in_vocab->second, added.id));
    }
    if (!spellings.insert(added.spelling).second) {
      return corrupt(fmt::format("{}.content: \"{}\" is there twice", where, added.spelling));
    }
    TRY(place(file, added.id, added.spelling));
    file.added_tokens.push_back(std::move(added));
  }
  return {};
}

Result<void> read_merges(const TokenizerJson& json, const TokenIds& ids, TokenizerFile& file) {
  if (json.merges.size() >= kMergeIdsMax) {
    return corrupt(fmt::format("model.merges: fewer than {} expected, found {}", kMergeIdsMax,
                               json.merges.size()));
  }
  std::unordered_set<std::string> lines;
  const auto id_of = [&ids](const std::string& entry) {
    const auto found = ids.find(entry);
    return found == ids.end() ? TokenId{-1} : found->second;
  };
  for (size_t rank = 0; rank < json.merges.size(); ++rank) {
    const auto& [left, right] = json.merges[rank];
    const Merge merge{id_of(left), id_of(right), id_of(left + right)};
    const std::string line = left + ' ' + right;
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      return corrupt(
          fmt::format("model.merges[{}]: both parts and \"{}\" expected in model.vocab, "
                      "found \"{}\"",
                      rank, left + right, line));
    }
    if (!lines.insert(line).second) {
      return corrupt(fmt::format("model.merges[{}]: \"{}\" is there twice", rank, line));
    }
    file.merges.push_back(merge);
  }
  return {};
}

// What each id stands for, and the token of each byte.
Result<void> spell_out(const TokenIds& ids, TokenizerFile& file) {
  file.bytes.resize(file.entries.size());
  std::vector<bool> is_added(file.entries.size(), false);
  for (const AddedToken& added : file.added_tokens) {
    file.bytes[static_cast<size_t>(added.id)] = added.spelling;
    is_added[static_cast<size_t>(added.id)] = true;
  }
  for (size_t id = 0; id < file.entries.size(); ++id) {
    if (is_added[id] || file.entries[id].empty()) continue;
    std::optional<std::string> bytes = from_byte_alphabet(file.entries[id]);
    if (!bytes) {
      return corrupt(fmt::format("model.vocab[\"{}\"]: characters of the byte alphabet expected",
                                 file.entries[id]));
    }
    file.bytes[id] = std::move(*bytes);
  }
  // An added token is cut out of the text; the merges must not produce it as well.
  const auto both = [](std::string_view entry) {
    return corrupt(
        fmt::format("\"{}\": an added token or a part of merges expected, found both", entry));
  };
  for (uint32_t byte = 0; byte < 256; ++byte) {
    std::string symbol;
    append_utf8(byte_symbol(static_cast<uint8_t>(byte)), symbol);
    const auto found = ids.find(symbol);
    if (found == ids.end()) {
      return corrupt(fmt::format("model.vocab: \"{}\" for byte 0x{:02X} expected", symbol, byte));
    }
    if (is_added[static_cast<size_t>(found->second)]) return both(symbol);
    file.byte_tokens.push_back(found->second);
  }
  for (const Merge& merge : file.merges) {
    for (const TokenId id : {merge.left, merge.right, merge.result}) {
      if (is_added[static_cast<size_t>(id)]) return both(file.entries[static_cast<size_t>(id)]);
    }
  }
  return {};
}

}  // namespace

Result<TokenizerFile> parse_tokenizer_file(std::string_view text) {
  TRY_ASSIGN(const TokenizerJson json, read_tokenizer_json(text));
  TRY(check_scheme(json.document));
  TokenizerFile file;
  TRY_ASSIGN(const TokenIds ids, read_vocab(json, file));
  TRY(read_added_tokens(at(json.document, "added_tokens"), ids, file));
  TRY(read_merges(json, ids, file));
  TRY(spell_out(ids, file));
  return file;
}

}  // namespace yeoul
