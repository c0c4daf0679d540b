#include "text/plain_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/byte_alphabet.h"
#include "text/tokenizer_file.h"

namespace yeoul {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kFirstMarkers = {"<｜begin▁of▁sentence｜>",
                                                           "<｜end▁of▁sentence｜>", "<｜▁pad▁｜>"};
constexpr std::string_view kImageMarker = "<｜deepseek_image｜>";
constexpr std::array<std::string_view, 8> kLastMarkers = {
    "<｜User｜>", "<｜Assistant｜>",       "<think>",      "</think>",
    "｜DSML｜",   "<｜latest_reminder｜>", "<｜System｜>", kImageMarker};
constexpr int32_t kLastIds = 16;  // the rest are placeholders
constexpr int32_t kBytes = 256;
constexpr int32_t kIdsMin = static_cast<int32_t>(kFirstMarkers.size()) + kBytes + kLastIds;
constexpr int32_t kIdsMax = kIdsMin + kBytes * kBytes + kBytes * kBytes * kBytes;

OrderedJson added_token(int32_t id, std::string_view spelling) {
  return {{"id", id},        {"content", spelling}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

OrderedJson added_tokens(int32_t vocab_size) {
  OrderedJson list = OrderedJson::array();
  for (size_t i = 0; i < kFirstMarkers.size(); ++i) {
    list.push_back(added_token(static_cast<int32_t>(i), kFirstMarkers[i]));
  }
  for (int32_t i = 0; i < kLastIds; ++i) {
    const auto at = static_cast<size_t>(i);
    list.push_back(added_token(vocab_size - kLastIds + i,
                               at < kLastMarkers.size()
                                   ? std::string(kLastMarkers[at])
                                   : fmt::format("<|place_holder_{}|>", at - kLastMarkers.size())));
  }
  return list;
}

OrderedJson byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", false}};
}

OrderedJson pre_tokenizer() {
  OrderedJson steps = OrderedJson::array();
  for (const std::string_view pattern : kSplitPatterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back(byte_level());
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

// Entry and merge of every id between the first and the last markers.
OrderedJson byte_pair_model(int32_t vocab_size) {
  OrderedJson vocab = OrderedJson::object();
  OrderedJson merges = OrderedJson::array();
  auto id = static_cast<int32_t>(kFirstMarkers.size());
  std::vector<std::string> entries;  // of bytes and pairs, in id order
  const auto add = [&](std::string entry) {
    vocab.get_ref<OrderedJson::object_t&>().emplace_back(entry, id++);
    entries.push_back(std::move(entry));
  };
  for (int32_t byte = 0; byte < kBytes; ++byte) {
    const auto character = static_cast<char>(byte);
    add(to_byte_alphabet(std::string_view(&character, 1)));
  }
  // Every left side, a byte first, then a pair, with every byte.
  for (size_t left = 0; id < vocab_size - kLastIds; ++left) {
    for (size_t right = 0; right < kBytes && id < vocab_size - kLastIds; ++right) {
      merges.push_back(entries[left] + " " + entries[right]);
      add(entries[left] + entries[right]);
    }
  }
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"fuse_unk", false},
          {"end_of_word_suffix", nullptr},
          {"byte_fallback", false},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

}  // namespace

Result<PlainTokenizer> make_plain_tokenizer(int32_t vocab_size) {
  if (vocab_size < kIdsMin || vocab_size > kIdsMax) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("vocabulary: {} to {} ids expected, {} "
                                                         "found",
                                                         kIdsMin, kIdsMax, vocab_size));
  }
  OrderedJson document;
  document["version"] = "1.0";
  document["truncation"] = nullptr;
  document["padding"] = nullptr;
  document["added_tokens"] = added_tokens(vocab_size);
  document["normalizer"] = nullptr;
  document["pre_tokenizer"] = pre_tokenizer();
  document["post_processor"] = nullptr;
  document["decoder"] = byte_level();
  document["model"] = byte_pair_model(vocab_size);
  constexpr TokenId kImageIndex = kLastMarkers.size() - 1;
  return PlainTokenizer{document.dump() + "\n", vocab_size - kLastIds + kImageIndex};
}

}  // namespace yeoul
