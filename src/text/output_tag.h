#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace yeoul {

// Markup in generated text (docs/chat_format.md). V4.1 writes a space before the word of a tag and
// "calls"; V4 wrote no space and "tool_calls". Both are tags.
enum class Tag : uint8_t {
  kThinkEnd,
  kCallsBegin,
  kCallsEnd,
  kInvokeBegin,  // up to the opening quote of the name
  kInvokeEnd,
  kParameterBegin,  // up to the opening quote of the name
  kParameterEnd,
};

struct TagSpelling {
  std::string_view text;
  Tag tag;
};

inline constexpr TagSpelling kTextTags[] = {
    {"</think>", Tag::kThinkEnd},
    {"<｜DSML｜ calls>", Tag::kCallsBegin},
    {"<｜DSML｜tool_calls>", Tag::kCallsBegin},
};
inline constexpr std::span<const TagSpelling> kTextTagsWithoutCalls(kTextTags, 1);

inline constexpr TagSpelling kCallTags[] = {
    {"</｜DSML｜ calls>", Tag::kCallsEnd},
    {"</｜DSML｜tool_calls>", Tag::kCallsEnd},
    {"</｜DSML｜ invoke>", Tag::kInvokeEnd},
    {"</｜DSML｜invoke>", Tag::kInvokeEnd},
    {"</｜DSML｜ parameter>", Tag::kParameterEnd},
    {"</｜DSML｜parameter>", Tag::kParameterEnd},
    {"<｜DSML｜ invoke name=\"", Tag::kInvokeBegin},
    {"<｜DSML｜invoke name=\"", Tag::kInvokeBegin},
    {"<｜DSML｜ parameter name=\"", Tag::kParameterBegin},
    {"<｜DSML｜parameter name=\"", Tag::kParameterBegin},
};
// Inside a value an opening tag is text.
inline constexpr std::span<const TagSpelling> kValueTags(kCallTags, 6);

enum class TagMatch : uint8_t { kNone, kPrefix, kWhole };

struct FoundTag {
  TagMatch match = TagMatch::kNone;
  TagSpelling spelling{};
};

// Whether `text` begins with one of `tags`, or is itself a beginning of one.
FoundTag match_tag(std::string_view text, std::span<const TagSpelling> tags);

}  // namespace yeoul
