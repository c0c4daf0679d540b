#include "text/tokenizer.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "text/marker_trie.h"
#include "text/merge_table.h"
#include "text/piece_reader.h"
#include "text/piece_table.h"
#include "text/tokenizer_file.h"

namespace yeoul {
namespace {

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(TokenizerFile file)
      : entries_(std::move(file.entries)),
        bytes_(std::move(file.bytes)),
        merges_(file.byte_tokens, std::move(file.merges)),
        is_marker_(entries_.size(), false),
        whole_pieces_(entries_.size()) {
    for (const AddedToken& added : file.added_tokens) {
      const auto id = static_cast<size_t>(added.id);
      (added.is_normalized ? second_markers_ : first_markers_).insert(bytes_[id], added.id);
      markers_.emplace(bytes_[id], added.id);
      is_marker_[id] = true;
    }
    index_whole_pieces();
  }

  void encode_text(std::string_view text, std::vector<TokenId>& out) const override {
    PieceReader reader(text);
    for (std::string_view piece = reader.next(); !piece.empty(); piece = reader.next()) {
      const TokenId whole = whole_pieces_.find(piece);
      if (whole != PieceTable::kNone) {
        out.push_back(whole);
      } else {
        merges_.encode(piece, out);
      }
    }
  }

  void encode_with_markers(std::string_view text, std::vector<TokenId>& out) const override {
    cut_markers(first_markers_, text, out, [this, &out](std::string_view rest) {
      cut_markers(second_markers_, rest, out,
                  [this, &out](std::string_view plain) { encode_text(plain, out); });
    });
  }

  std::optional<TokenId> marker(std::string_view spelling) const override {
    const auto found = markers_.find(spelling);
    if (found == markers_.end()) return std::nullopt;
    return found->second;
  }

  bool is_marker(TokenId id) const override { return has(id) && is_marker_[index(id)]; }

  std::string_view token_bytes(TokenId id) const override {
    return has(id) ? std::string_view(bytes_[index(id)]) : std::string_view();
  }

  std::string_view token_entry(TokenId id) const override {
    return has(id) ? std::string_view(entries_[index(id)]) : std::string_view();
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(entries_.size()); }

 private:
  static size_t index(TokenId id) { return static_cast<size_t>(id); }
  bool has(TokenId id) const { return id >= 0 && index(id) < entries_.size(); }

  // Most pieces of real text are one token. Finding it by its bytes is only right where merging the
  // bytes would arrive at it, so that is tried once for every token.
  void index_whole_pieces() {
    std::vector<TokenId> ids;
    for (size_t id = 0; id < bytes_.size(); ++id) {
      if (bytes_[id].empty() || is_marker_[id]) continue;
      ids.clear();
      merges_.encode(bytes_[id], ids);
      if (ids.size() == 1 && index(ids[0]) == id) whole_pieces_.insert(bytes_[id], ids[0]);
    }
  }

  template <typename EncodeRest>
  static void cut_markers(const MarkerTrie& markers, std::string_view text,
                          std::vector<TokenId>& out, const EncodeRest& encode_rest) {
    size_t position = 0;
    while (const auto match = markers.find(text, position)) {
      if (match->begin > position) encode_rest(text.substr(position, match->begin - position));
      out.push_back(match->id);
      position = match->end;
    }
    if (position < text.size()) encode_rest(text.substr(position));
  }

  std::vector<std::string> entries_;  // by id
  std::vector<std::string> bytes_;    // by id; markers_ borrows from it
  MergeTable merges_;
  std::vector<bool> is_marker_;
  MarkerTrie first_markers_;
  MarkerTrie second_markers_;
  std::unordered_map<std::string_view, TokenId> markers_;
  PieceTable whole_pieces_;
};

}  // namespace

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return fail(ErrorCode::kNotFound, fmt::format("{}: {}", path, std::strerror(errno)));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return fail(ErrorCode::kUnavailable, fmt::format("{}: reading failed", path));
  auto tokenizer = parse(text);
  if (!tokenizer) {
    return fail(tokenizer.error().code, fmt::format("{}: {}", path, tokenizer.error().message));
  }
  return tokenizer;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(std::string_view json) {
  TRY_ASSIGN(TokenizerFile file, parse_tokenizer_file(json));
  return std::make_shared<const BpeTokenizer>(std::move(file));
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  std::string out;
  for (const TokenId id : ids) out += token_bytes(id);
  return out;
}

}  // namespace yeoul
