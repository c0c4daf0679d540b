#include "text/output_tag.h"

namespace yeoul {

FoundTag match_tag(std::string_view text, std::span<const TagSpelling> tags) {
  FoundTag found;
  for (const TagSpelling& tag : tags) {
    if (text.starts_with(tag.text)) return {TagMatch::kWhole, tag};
    if (tag.text.starts_with(text)) found.match = TagMatch::kPrefix;
  }
  return found;
}

}  // namespace yeoul
