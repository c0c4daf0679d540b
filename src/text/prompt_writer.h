#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_format.h"

namespace yeoul {

// Spellings of the markers that a prompt contains (docs/chat_format.md).
inline constexpr std::string_view kBeginMarker = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEndMarker = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kSystemMarker = "<｜System｜>";
inline constexpr std::string_view kUserMarker = "<｜User｜>";
inline constexpr std::string_view kAssistantMarker = "<｜Assistant｜>";
inline constexpr std::string_view kLatestReminderMarker = "<｜latest_reminder｜>";
inline constexpr std::string_view kThinkMarker = "<think>";
inline constexpr std::string_view kThinkEndMarker = "</think>";
inline constexpr std::string_view kDsmlMarker = "｜DSML｜";

// Collects a prompt. Neighbouring texts become one piece: they are tokenized together.
class PromptWriter {
 public:
  void text(std::string_view text) {
    if (text.empty()) return;
    if (pieces_.empty() || pieces_.back().is_marker) pieces_.push_back({});
    pieces_.back().text += text;
  }
  void marker(std::string_view spelling) { pieces_.push_back({true, std::string(spelling)}); }

  // Text of our own in which the spellings of the DSML and think markers are those markers.
  void markup(std::string_view text);

  std::vector<PromptPiece> take() { return std::move(pieces_); }

 private:
  std::vector<PromptPiece> pieces_;
};

}  // namespace yeoul
